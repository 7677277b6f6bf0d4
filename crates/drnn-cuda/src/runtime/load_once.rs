//! What is loaded when it is first needed, and then kept.

use crate::error::Result;
use std::sync::{Mutex, OnceLock};

/// A value that one thread loads while others that need it wait. An error is not kept: the next one
/// that needs the value tries again.
#[derive(Debug)]
pub(crate) struct LoadOnce<T> {
    value: OnceLock<T>,
    loading: Mutex<()>,
}

impl<T> LoadOnce<T> {
    pub fn new() -> LoadOnce<T> {
        LoadOnce { value: OnceLock::new(), loading: Mutex::new(()) }
    }

    /// The value, or the error of loading it now.
    pub fn get_or_load(&self, load: impl FnOnce() -> Result<T>) -> Result<&T> {
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let _one_at_a_time = self.loading.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match self.value.get() {
            Some(value) => Ok(value), // another thread has loaded it meanwhile
            None => {
                let value = load()?;
                Ok(self.value.get_or_init(|| value))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn errors_are_not_kept_and_values_are() {
        let once = LoadOnce::new();
        assert_eq!(once.get_or_load(|| Err(Error::OutOfMemory)), Err(Error::OutOfMemory));
        assert_eq!(once.get_or_load(|| Ok(3)), Ok(&3));
        assert_eq!(once.get_or_load(|| unreachable!("it is loaded")), Ok(&3));
    }
}
