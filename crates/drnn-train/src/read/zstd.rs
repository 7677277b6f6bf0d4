//! zstd: a sequence of frames, of which skippable ones are skipped.

use super::limits::MAX_ZSTD_WINDOW;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, Read};

/// Decompresses all frames of a stream.
pub(super) struct Frames<R> {
    compressed: R,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<R: BufRead> Frames<R> {
    pub(super) fn new(compressed: R) -> Frames<R> {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MAX_ZSTD_WINDOW);
        Frames { compressed, decoder, in_frame: false }
    }

    /// Goes to the beginning of the next frame; whether there is one.
    fn begin(&mut self) -> io::Result<bool> {
        if self.compressed.fill_buf()?.is_empty() {
            return Ok(false);
        }
        match self.decoder.init(&mut self.compressed) {
            Ok(()) => self.in_frame = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                let length = u64::from(length);
                let skipped =
                    io::copy(&mut self.compressed.by_ref().take(length), &mut io::sink())?;
                if skipped < length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Err(e) => return Err(invalid(e)),
        }
        Ok(true)
    }

    fn end(&mut self) -> io::Result<()> {
        self.in_frame = false;
        let found = self.decoder.get_checksum_from_data();
        if found.is_some() && found != self.decoder.get_calculated_checksum() {
            return Err(invalid("wrong checksum"));
        }
        Ok(())
    }
}

fn invalid(e: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, e.to_string())
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if to.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.in_frame {
                if !self.begin()? {
                    return Ok(0);
                }
                continue;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.compressed, one).map_err(invalid)?;
            }
            match self.decoder.read(to)? {
                0 => self.end()?,
                count => return Ok(count),
            }
        }
    }
}
