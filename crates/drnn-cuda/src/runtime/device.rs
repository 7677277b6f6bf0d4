//! The GPU: found at run time, with its context and its compiled kernels.

use crate::error::{Error, Result};
use crate::kernels::params::Params;
use crate::kernels::{Kernels, RecurrenceKernels, TaggerKernels};
use crate::persistent::{DeviceLimits, ForcedTiling, KernelSpec, PersistentKernel, StepKernels};
use crate::plain::Resident;
use crate::runtime::driver::{ctx, mem_get_info};
use crate::runtime::gemm::{Gemm, Precision};
use crate::runtime::library;
use crate::runtime::load_once::LoadOnce;
use crate::step::stored::StoredData;
use cudarc::driver::result::{self, primary_ctx};
use cudarc::driver::sys::{CUcontext, CUdevice_attribute as Attribute};
use drnn::Cell;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

/// The lowest compute capability whose instructions the kernels use: Ampere, sm_80.
const MIN_CAPABILITY: (i32, i32) = (8, 0);

/// Write-locked during a graph capture, read-locked by calls that would invalidate the capture.
static CAPTURE_LOCK: RwLock<()> = RwLock::new(());

/// A GPU and its CUDA context. Clones share both, and the kernels compiled so far.
#[derive(Debug, Clone)]
pub struct Device(Arc<Inner>);

/// A kernel's source by name, and its preprocessor definitions.
type KernelVariant = (&'static str, Vec<String>);

/// Kernels that are loaded on first use. Each has a lock of its own, so that threads compile
/// different ones concurrently; an error is not kept.
type Loaded<K, V> = Mutex<HashMap<K, Arc<Mutex<Option<V>>>>>;

/// What was loaded for `key`, or else what `load` loads.
fn loaded<K: Hash + Eq, V: Copy>(
    known: &Loaded<K, V>,
    key: K,
    load: impl FnOnce() -> Result<V>,
) -> Result<V> {
    let entry = known.lock().unwrap_or_else(|p| p.into_inner()).entry(key).or_default().clone();
    let mut entry = entry.lock().unwrap_or_else(|p| p.into_inner());
    match *entry {
        Some(found) => Ok(found),
        None => Ok(*entry.insert(load()?)),
    }
}

#[derive(Debug)]
struct Inner {
    context: CUcontext,
    name: String,
    capability: (i32, i32),
    limits: DeviceLimits,
    memory: usize,
    kernels: LoadOnce<Kernels>,
    recurrence_kernels: LoadOnce<RecurrenceKernels>,
    tagger_kernels: LoadOnce<TaggerKernels>,
    /// By number of warps.
    resident: Loaded<usize, Resident>,
    /// By precision: handles that all calls of [`crate::Recurrence`] share.
    products: Mutex<HashMap<Precision, Arc<Mutex<Gemm>>>>,
    persistent: Loaded<KernelVariant, PersistentKernel<()>>,
    /// By cell.
    steps: Loaded<Cell, StepKernels>,
    /// Copies of data sets that learners use, and whether no more are made.
    stored: Mutex<Vec<Weak<StoredData>>>,
    without_copies: AtomicBool,
}

// SAFETY: any thread that makes the context current may use it, which `Device::enter` does.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Device {
    /// The first GPU, with everything that training needs: driver, NVRTC, cuBLAS, compute
    /// capability 8.0 or newer. The error says what is missing and how to install it.
    pub fn find() -> Result<Device> {
        Device::at(0)
    }

    /// The GPU of that number, in the driver's order, which is also PyTorch's. Each is searched for
    /// once per process and the result is kept, and so is the context: cuBLAS does not survive its
    /// re-creation.
    pub fn at(number: usize) -> Result<Device> {
        static FOUND: Mutex<BTreeMap<usize, Result<Device>>> = Mutex::new(BTreeMap::new());
        let mut found = FOUND.lock().unwrap_or_else(|p| p.into_inner());
        found.entry(number).or_insert_with(|| Device::search(number)).clone()
    }

    fn search(number: usize) -> Result<Device> {
        library::driver()?;
        let none = |error| Error::NoDevice(Error::from(error).to_string());
        result::init().map_err(none)?;
        let count = result::device::get_count().map_err(none)?;
        if count == 0 {
            return Err(Error::NoDevice("the driver reports none".into()));
        }
        let ordinal = i32::try_from(number).ok().filter(|&ordinal| ordinal < count);
        let Some(ordinal) = ordinal else {
            return Err(Error::NoDevice(format!(
                "number {number}, but the driver reports {count}"
            )));
        };
        let device = result::device::get(ordinal).map_err(none)?;
        // SAFETY: `device` is a valid ordinal.
        let attribute = |which| unsafe { result::device::get_attribute(device, which) };
        let capability = (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        let name = result::device::get_name(device)?;
        if capability < MIN_CAPABILITY {
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
        // SAFETY: `device` is a valid ordinal.
        let memory = unsafe { result::device::total_mem(device) }?;
        // SAFETY: never released.
        let context = unsafe { primary_ctx::retain(device) }?;
        Ok(Device(Arc::new(Inner {
            context,
            name,
            capability,
            limits: DeviceLimits { multiprocessors, shared, forced: ForcedTiling::from_env()? },
            memory,
            kernels: LoadOnce::new(),
            recurrence_kernels: LoadOnce::new(),
            tagger_kernels: LoadOnce::new(),
            resident: Mutex::default(),
            products: Mutex::default(),
            persistent: Mutex::default(),
            steps: Mutex::default(),
            stored: Mutex::default(),
            without_copies: AtomicBool::new(false),
        })))
    }

    /// Makes the context current on this thread, which all other calls require.
    pub(crate) fn enter(&self) -> Result<()> {
        // SAFETY: the context is retained for ever.
        Ok(unsafe { ctx::set_current(self.0.context) }?)
    }

    /// Enters the context and excludes graph captures while the guard lives: allocating, freeing or
    /// synchronising during a capture on another thread would invalidate it. Do not take a second
    /// guard while holding one.
    pub(crate) fn no_capture_guard(&self) -> Result<RwLockReadGuard<'static, ()>> {
        self.enter()?;
        Ok(CAPTURE_LOCK.read().unwrap_or_else(|p| p.into_inner()))
    }

    /// Enters the context for a graph capture and excludes all holders of
    /// [`Device::no_capture_guard`].
    pub(crate) fn capture_guard(&self) -> Result<RwLockWriteGuard<'static, ()>> {
        self.enter()?;
        Ok(CAPTURE_LOCK.write().unwrap_or_else(|p| p.into_inner()))
    }

    /// The kernels that every network uses, compiled and loaded on first use.
    pub(crate) fn kernels(&self) -> Result<&Kernels> {
        self.0.kernels.get_or_load(|| Kernels::new(self))
    }

    /// The kernels that only [`crate::Recurrence`] uses, compiled and loaded on first use.
    pub(crate) fn recurrence_kernels(&self) -> Result<&RecurrenceKernels> {
        self.0.recurrence_kernels.get_or_load(|| RecurrenceKernels::new(self))
    }

    /// The kernels that only [`crate::CudaTagger`] uses, compiled and loaded on first use.
    pub(crate) fn tagger_kernels(&self) -> Result<&TaggerKernels> {
        self.0.tagger_kernels.get_or_load(|| TaggerKernels::new(self))
    }

    /// The cuBLAS handle of [`crate::Recurrence`] for a precision, made on first use: handles take
    /// device memory, and every batch shape has a plan of its own. A call locks it and binds it.
    pub(crate) fn products(&self, precision: Precision) -> Result<Arc<Mutex<Gemm>>> {
        let mut known = self.0.products.lock().unwrap_or_else(|p| p.into_inner());
        if let Some(gemm) = known.get(&precision) {
            return Ok(gemm.clone());
        }
        let gemm = Arc::new(Mutex::new(Gemm::unbound(self, precision)?));
        known.insert(precision, gemm.clone());
        Ok(gemm)
    }

    /// The register-resident kernels for recurrences of `groups` times 8 units, loaded on first
    /// use.
    pub(crate) fn resident(&self, groups: usize) -> Result<Resident> {
        loaded(&self.0.resident, groups, || Resident::new(self, groups))
    }

    /// A persistent kernel, compiled and loaded on first use.
    pub(crate) fn persistent_kernel<P: Params>(
        &self,
        spec: &KernelSpec,
    ) -> Result<PersistentKernel<P>> {
        let key = (P::KERNEL, spec.source.defines.clone());
        let kernel = loaded(&self.0.persistent, key, || {
            let kernel = PersistentKernel::<P>::new(self, spec)?;
            // SAFETY: cast back below.
            Ok(unsafe { kernel.cast() })
        })?;
        // SAFETY: the key names the kernel, and so the type that it was loaded with.
        Ok(unsafe { kernel.cast() })
    }

    /// The kernels of recurrences step by step, compiled and loaded on first use.
    pub(crate) fn step_kernels(&self, cell: Cell) -> Result<StepKernels> {
        loaded(&self.0.steps, cell, || StepKernels::new(self, cell))
    }

    /// From now on learners make no copy of their data here and send every batch: for trainings that
    /// together leave no memory for copies.
    pub fn without_copies(&self) {
        self.0.without_copies.store(true, Ordering::Relaxed);
    }

    /// The copy of the data of that key that learners use, or else the one that `make` makes.
    pub(crate) fn stored(
        &self,
        key: u64,
        make: impl FnOnce() -> Result<Option<StoredData>>,
    ) -> Result<Option<Arc<StoredData>>> {
        let mut known = self.0.stored.lock().unwrap_or_else(|p| p.into_inner());
        known.retain(|stored| stored.strong_count() > 0);
        let mut used = known.iter().filter_map(Weak::upgrade);
        if let Some(found) = used.find(|stored| stored.key == key) {
            return Ok(Some(found));
        }
        if self.0.without_copies.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let made = make()?.map(Arc::new);
        known.extend(made.as_ref().map(Arc::downgrade));
        Ok(made)
    }

    /// The limits that tilings depend on.
    pub(crate) fn limits(&self) -> DeviceLimits {
        self.0.limits
    }

    /// Whether it has compute capability 9.x: `wgmma`, `setmaxnreg` and bulk copies exist there
    /// only.
    pub(crate) fn is_hopper(&self) -> bool {
        self.0.capability.0 == 9
    }

    /// The product name, as the driver reports it.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Number of streaming multiprocessors.
    pub fn multiprocessors(&self) -> usize {
        self.0.limits.multiprocessors
    }

    /// Maximum bytes of dynamic shared memory of a block.
    pub(crate) fn shared(&self) -> usize {
        self.0.limits.shared
    }

    /// Total device memory, in bytes.
    pub fn memory(&self) -> usize {
        self.0.memory
    }

    /// Device memory that is free now, in bytes, whichever process took the rest.
    pub fn free_memory(&self) -> Result<usize> {
        let _guard = self.no_capture_guard()?;
        let (free, _) = mem_get_info()?;
        Ok(free)
    }

    /// The architecture that kernels are compiled for, such as `sm_80`; `sm_90a` on Hopper, whose
    /// own instructions need the `a`.
    pub fn arch(&self) -> String {
        let (major, minor) = self.0.capability;
        format!("sm_{major}{minor}{}", if major == 9 { "a" } else { "" })
    }
}

#[cfg(test)]
impl Device {
    /// A simulated device that records all calls.
    pub(crate) fn recorded(capability: (i32, i32), limits: DeviceLimits) -> Device {
        Device(Arc::new(Inner {
            context: crate::runtime::driver::recorder::context(limits),
            name: "a recorder".into(),
            capability,
            limits,
            memory: 0,
            kernels: LoadOnce::new(),
            recurrence_kernels: LoadOnce::new(),
            tagger_kernels: LoadOnce::new(),
            resident: Mutex::default(),
            products: Mutex::default(),
            persistent: Mutex::default(),
            steps: Mutex::default(),
            stored: Mutex::default(),
            without_copies: AtomicBool::new(false),
        }))
    }

    /// Number of data sets that lie in its memory.
    pub(crate) fn copies(&self) -> usize {
        let known = self.0.stored.lock().unwrap_or_else(|p| p.into_inner());
        known.iter().filter(|stored| stored.strong_count() > 0).count()
    }

    /// The recorder of a simulated device.
    pub(crate) fn recorder(
        &self,
    ) -> std::sync::MutexGuard<'static, crate::runtime::driver::recorder::Recorder> {
        crate::runtime::driver::recorder::of(self.0.context)
    }
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let gib = self.0.memory as f64 / (1u64 << 30) as f64;
        write!(
            f,
            "{}, {} multiprocessors, {gib:.0} GiB",
            self.0.name, self.0.limits.multiprocessors
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn different_kernels_are_loaded_concurrently_and_each_once() {
        let known = Loaded::<usize, usize>::default();
        // Both wait for each other while they load, which a common lock would never let happen.
        let both = Barrier::new(2);
        std::thread::scope(|scope| {
            for key in [1, 2] {
                let (known, both) = (&known, &both);
                scope.spawn(move || {
                    let load = || {
                        both.wait();
                        Ok(10 * key)
                    };
                    assert_eq!(loaded(known, key, load).unwrap(), 10 * key);
                });
            }
        });
        assert_eq!(loaded(&known, 2, || unreachable!("it is loaded")).unwrap(), 20);
        let failed = loaded(&known, 3, || Err(Error::NoDevice("once".into())));
        assert!(failed.is_err());
        assert_eq!(loaded(&known, 3, || Ok(5)).unwrap(), 5);
    }
}
