//! Denormal numbers as zeros, where kernels run.

/// Treats denormal numbers as zero on this thread while it lives: a decaying state must not slow
/// the arithmetic down a hundredfold.
pub(crate) struct FlushDenormals {
    #[allow(dead_code, reason = "unused on targets without such a mode")]
    before: u64,
}

#[cfg(target_arch = "x86_64")]
mod control {
    const FLUSH_TO_ZERO_AND_DENORMALS_ARE_ZERO: u32 = 0x8040;

    pub fn set_flush() -> u64 {
        let mut before = 0u32;
        // SAFETY: reads and writes this thread's MXCSR; rounding and exception masks stay as is.
        unsafe {
            core::arch::asm!("stmxcsr [{}]", in(reg) &raw mut before, options(nostack));
            let now = before | FLUSH_TO_ZERO_AND_DENORMALS_ARE_ZERO;
            core::arch::asm!("ldmxcsr [{}]", in(reg) &raw const now, options(nostack, readonly));
        }
        u64::from(before)
    }

    pub fn restore(before: u64) {
        let before = before as u32;
        // SAFETY: puts back what `set_flush` found.
        unsafe {
            core::arch::asm!("ldmxcsr [{}]", in(reg) &raw const before, options(nostack, readonly));
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod control {
    const FLUSH_TO_ZERO: u64 = 1 << 24;

    pub fn set_flush() -> u64 {
        let before: u64;
        // SAFETY: reads and writes this thread's FPCR; rounding stays as is.
        unsafe {
            core::arch::asm!("mrs {}, fpcr", out(reg) before, options(nomem, nostack));
            core::arch::asm!("msr fpcr, {}", in(reg) before | FLUSH_TO_ZERO, options(nomem, nostack));
        }
        before
    }

    pub fn restore(before: u64) {
        // SAFETY: puts back what `set_flush` found.
        unsafe { core::arch::asm!("msr fpcr, {}", in(reg) before, options(nomem, nostack)) }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod control {
    pub fn set_flush() -> u64 {
        0
    }
    pub fn restore(_: u64) {}
}

impl FlushDenormals {
    pub fn on() -> FlushDenormals {
        FlushDenormals { before: control::set_flush() }
    }
}

impl Drop for FlushDenormals {
    fn drop(&mut self) {
        control::restore(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denormals_are_flushed_inside_and_kept_outside() {
        let tiny = core::hint::black_box(f32::MIN_POSITIVE);
        if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            let _flush = FlushDenormals::on();
            assert_eq!(core::hint::black_box(tiny) * core::hint::black_box(0.5), 0.0);
        }
        assert_ne!(core::hint::black_box(tiny) * core::hint::black_box(0.5), 0.0);
    }
}
