//! A GPU, found at run time.

use crate::error::{Error, Result};
use crate::kernels::Kernels;
use crate::persistent::{Card, Kind, Together};
use crate::plain::Resident;
use crate::runtime::driver::{ctx, mem_get_info};
use crate::runtime::library;
use cudarc::driver::result::{self, primary_ctx};
use cudarc::driver::sys::{CUcontext, CUdevice_attribute as Attribute};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The oldest generation whose instructions the kernels use: Ampere, sm_80.
const OLDEST: (i32, i32) = (8, 0);

/// Written while a graph is captured, read by what must not happen meanwhile.
static CAPTURES: RwLock<()> = RwLock::new(());

/// A GPU and our context on it. Copies share both.
#[derive(Debug, Clone)]
pub struct Device(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    context: CUcontext,
    name: String,
    capability: (i32, i32),
    multiprocessors: usize,
    /// Bytes that a block may have.
    shared: usize,
    memory: usize,
    kernels: OnceLock<Result<Kernels>>,
    resident: Mutex<HashMap<usize, Resident>>,
    /// By what they were compiled from.
    together: Mutex<HashMap<(&'static str, Vec<String>), Together>>,
}

// SAFETY: a context may be used from any thread that makes it current, which `Device::enter` does.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Device {
    /// The first GPU, with everything that training on it needs; the error says what is missing. It is looked for once,
    /// and its context stays: cuBLAS does not bear that a context goes and comes back.
    pub fn find() -> Result<Device> {
        static FOUND: OnceLock<Result<Device>> = OnceLock::new();
        FOUND.get_or_init(Device::look).clone()
    }

    fn look() -> Result<Device> {
        library::driver()?;
        let none = |error| Error::NoDevice(Error::from(error).to_string());
        result::init().map_err(none)?;
        if result::device::get_count().map_err(none)? == 0 {
            return Err(Error::NoDevice("the driver knows of none".into()));
        }
        let device = result::device::get(0).map_err(none)?;
        // SAFETY: the device is one.
        let attribute = |which| unsafe { result::device::get_attribute(device, which) };
        let capability = (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        let name = result::device::get_name(device)?;
        if capability < OLDEST {
            let (major, minor) = capability;
            return Err(Error::NoDevice(format!(
                "{name} has compute capability {major}.{minor}; 8.0 (Ampere) or newer is needed"
            )));
        }
        library::nvrtc()?;
        library::cublas()?;
        let multiprocessors =
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as usize;
        let shared =
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)? as usize;
        // SAFETY: the device is one.
        let memory = unsafe { result::device::total_mem(device) }?;
        // SAFETY: never released.
        let context = unsafe { primary_ctx::retain(device) }?;
        Ok(Device(Arc::new(Inner {
            context,
            name,
            capability,
            multiprocessors,
            shared,
            memory,
            kernels: OnceLock::new(),
            resident: Mutex::default(),
            together: Mutex::default(),
        })))
    }

    /// Makes its context this thread's: everything else expects that.
    pub(crate) fn enter(&self) -> Result<()> {
        // SAFETY: retained for as long as `self` lives.
        Ok(unsafe { ctx::set_current(self.0.context) }?)
    }

    /// The same for what makes, frees or waits for something: it must not meet a capture on another thread, which would be
    /// spoilt. Not to be held while another is taken.
    pub(crate) fn quiet(&self) -> Result<RwLockReadGuard<'static, ()>> {
        self.enter()?;
        Ok(CAPTURES.read().unwrap_or_else(|p| p.into_inner()))
    }

    /// For a capture.
    pub(crate) fn alone(&self) -> Result<RwLockWriteGuard<'static, ()>> {
        self.enter()?;
        Ok(CAPTURES.write().unwrap_or_else(|p| p.into_inner()))
    }

    /// The kernels, compiled and loaded when they are first asked for.
    pub(crate) fn kernels(&self) -> Result<&Kernels> {
        self.0.kernels.get_or_init(|| Kernels::new(self)).as_ref().map_err(Clone::clone)
    }

    /// The kernels for recurrences of `groups` times 8 units, likewise.
    pub(crate) fn resident(&self, groups: usize) -> Result<Resident> {
        let mut known = self.0.resident.lock().unwrap_or_else(|p| p.into_inner());
        if let Some(resident) = known.get(&groups) {
            return Ok(*resident);
        }
        let resident = Resident::new(self, groups)?;
        known.insert(groups, resident);
        Ok(resident)
    }

    /// A kernel for large recurrences, likewise.
    pub(crate) fn together(&self, kind: &Kind) -> Result<Together> {
        let key = (kind.source.name, kind.source.defines.clone());
        let mut known = self.0.together.lock().unwrap_or_else(|p| p.into_inner());
        if let Some(together) = known.get(&key) {
            return Ok(*together);
        }
        let together = Together::new(self, kind)?;
        known.insert(key, together);
        Ok(together)
    }

    /// What large recurrences are divided by.
    pub(crate) fn card(&self) -> Card {
        Card { multiprocessors: self.0.multiprocessors, shared: self.0.shared }
    }

    /// Whether it has the instructions that only this generation has.
    pub(crate) fn is_hopper(&self) -> bool {
        self.0.capability.0 == 9
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its multiprocessors.
    pub fn multiprocessors(&self) -> usize {
        self.0.multiprocessors
    }

    /// Bytes of shared memory that a block may have.
    pub(crate) fn shared(&self) -> usize {
        self.0.shared
    }

    /// Bytes of its memory.
    pub fn memory(&self) -> usize {
        self.0.memory
    }

    /// Bytes of its memory that nobody has.
    pub fn free_memory(&self) -> Result<usize> {
        let _quiet = self.quiet()?;
        let (free, _) = mem_get_info()?;
        Ok(free)
    }

    /// What kernels are compiled for: `sm_90a` on Hopper, whose own instructions need the `a`.
    pub fn arch(&self) -> String {
        let (major, minor) = self.0.capability;
        format!("sm_{major}{minor}{}", if major == 9 { "a" } else { "" })
    }
}

#[cfg(test)]
impl Device {
    /// A card that is not there: what it is asked for is recorded.
    pub(crate) fn recorded(capability: (i32, i32), card: Card) -> Device {
        Device(Arc::new(Inner {
            context: crate::runtime::driver::recorder::context(card),
            name: "a recorder".into(),
            capability,
            multiprocessors: card.multiprocessors,
            shared: card.shared,
            memory: 0,
            kernels: OnceLock::new(),
            resident: Mutex::default(),
            together: Mutex::default(),
        }))
    }

    /// What it was asked for.
    pub(crate) fn recorder(
        &self,
    ) -> std::sync::MutexGuard<'static, crate::runtime::driver::recorder::Recorder> {
        crate::runtime::driver::recorder::of(self.0.context)
    }
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let gib = self.0.memory as f64 / (1u64 << 30) as f64;
        write!(f, "{}, {} multiprocessors, {gib:.0} GiB", self.0.name, self.0.multiprocessors)
    }
}
