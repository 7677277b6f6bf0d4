"""Without PyTorch these tests are skipped."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
