//! The little that a board needs: a start, a heap, and text by semihosting (ARM's interface to a debugger,
//! which QEMU is one of).

use alloc::alloc::{GlobalAlloc, Layout};
use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

// The vector table: where the stack begins, and what runs after a reset and after a fault.
global_asm!(
    ".section .vectors, \"a\"",
    ".word stack_top",
    ".word reset",
    ".rept 14",
    ".word fault",
    ".endr",
    ".text",
    ".thumb_func",
    ".global reset",
    "reset:",
    // Access to the floating point unit (CPACR), which is off at first.
    "ldr r0, =0xE000ED88",
    "ldr r1, [r0]",
    "orr r1, r1, #0xF00000",
    "str r1, [r0]",
    "dsb",
    "isb",
    "bl start",
);

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    crate::main();
    exit(true)
}

#[unsafe(no_mangle)]
extern "C" fn fault() -> ! {
    write("fault\n\0");
    exit(false)
}

#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    print!("{info}\n");
    exit(false)
}

fn semihosting(operation: usize, argument: usize) {
    // SAFETY: a call to the debugger, which reads what the argument points to.
    unsafe {
        asm!("bkpt 0xAB", inout("r0") operation => _, in("r1") argument, options(nostack));
    }
}

/// Text that ends with a zero byte.
pub fn write(text: &str) {
    const SYS_WRITE0: usize = 4;
    debug_assert!(text.ends_with('\0'));
    semihosting(SYS_WRITE0, text.as_ptr().addr());
}

macro_rules! print {
    ($($argument:tt)*) => {
        $crate::board::write(&(alloc::format!($($argument)*) + "\0"))
    };
}
pub(crate) use print;

/// Ends the emulation.
pub fn exit(success: bool) -> ! {
    const SYS_EXIT: usize = 0x18;
    const APPLICATION_EXIT: usize = 0x20026;
    const RUN_TIME_ERROR: usize = 0x20023;
    semihosting(SYS_EXIT, if success { APPLICATION_EXIT } else { RUN_TIME_ERROR });
    loop {}
}

/// Memory that is given out in order and never again, with a count of what is in use.
pub struct Heap {
    bytes: UnsafeCell<[u64; SIZE / 8]>,
    next: AtomicUsize,
    live: AtomicUsize,
    peak: AtomicUsize,
}

const SIZE: usize = 1 << 20;

// SAFETY: parts of `bytes` are given out once each.
unsafe impl Sync for Heap {}

#[global_allocator]
pub static HEAP: Heap = Heap {
    bytes: UnsafeCell::new([0; SIZE / 8]),
    next: AtomicUsize::new(0),
    live: AtomicUsize::new(0),
    peak: AtomicUsize::new(0),
};

// SAFETY: what is returned is aligned, within `bytes`, and nobody else's.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let base = self.bytes.get().addr();
        let start = (base + self.next.load(Relaxed)).next_multiple_of(layout.align()) - base;
        if start + layout.size() > SIZE {
            return core::ptr::null_mut();
        }
        self.next.store(start + layout.size(), Relaxed);
        let live = self.live.fetch_add(layout.size(), Relaxed) + layout.size();
        self.peak.fetch_max(live, Relaxed);
        self.bytes.get().cast::<u8>().wrapping_add(start)
    }

    unsafe fn dealloc(&self, _: *mut u8, layout: Layout) {
        self.live.fetch_sub(layout.size(), Relaxed);
    }
}

impl Heap {
    /// Bytes in use.
    pub fn live(&self) -> usize {
        self.live.load(Relaxed)
    }

    /// The most that were ever in use.
    pub fn peak(&self) -> usize {
        self.peak.load(Relaxed)
    }

    /// Bytes given out in all.
    pub fn allocated(&self) -> usize {
        self.next.load(Relaxed)
    }
}
