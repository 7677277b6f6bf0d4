//! Parameter structs of kernels: one declaration for both languages.
//!
//! `params!` declares a `#[repr(C)]` struct for the host and generates the C declaration that is
//! inserted before the kernel's source, with static assertions of its size and of every offset. A
//! kernel takes the struct by value, as its only argument:
//!
//! ```text
//! params! {                                        struct Unscale {
//!     Unscale for "unscale" {                          const Header* header;
//!         header: *const Header,            ->         float* values;
//!         values: *mut f32,                            u32 count;
//!         count: u32,                              };
//!     }                                            static_assert(sizeof(Unscale) == 24, ..);
//! }                                                static_assert(.. offset of each field ..);
//!
//! extern "C" __global__ void unscale(const Unscale p)
//! ```
//!
//! Pointers are addresses in device memory, made by [`ptr`]. Parameters live in constant memory:
//! structs have no arrays, which kernels could index dynamically and so force into local memory.
//! The persistent kernels are short of registers and declare theirs `__grid_constant__`, so that the
//! compiler reads fields where they are needed instead of holding them.

mod elementwise;
mod group;
mod optimiser;
mod persistent;
mod recurrence;
mod resident;
mod tagger;

pub(crate) use elementwise::*;
pub(crate) use group::*;
pub(crate) use optimiser::*;
pub(crate) use persistent::*;
pub(crate) use recurrence::*;
pub(crate) use resident::*;
pub(crate) use tagger::*;

/// The parameters of a kernel.
///
/// # Safety
/// The struct is `#[repr(C)]`, and [`declaration`](Params::declaration) describes its layout.
pub(crate) unsafe trait Params: Copy + 'static {
    /// The kernel that takes them.
    const KERNEL: &'static str;
    /// Name of the struct, in both languages.
    const NAME: &'static str;

    /// The struct in C, with assertions of its layout.
    fn declaration() -> String;

    /// Every field with its value, for the recorder.
    #[cfg(test)]
    fn fields(&self) -> Vec<(&'static str, Value)>;
}

/// The type of a field.
pub(crate) trait Field: Copy {
    fn c_type() -> String;

    #[cfg(test)]
    fn value(self) -> Value;
}

/// A field's value, as the recorder sees it.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    /// An address in device memory: the C type found there, and whether the kernel only reads it.
    Address {
        at: u64,
        of: &'static str,
        constant: bool,
    },
    U32(u32),
    U64(u64),
    F32(f32),
}

macro_rules! scalars {
    ($($type:ty, $c:literal, $variant:ident;)*) => {$(
        impl Field for $type {
            fn c_type() -> String {
                $c.into()
            }

            #[cfg(test)]
            fn value(self) -> Value {
                Value::$variant(self)
            }
        }
    )*};
}

scalars! {
    u32, "u32", U32;
    u64, "u64", U64;
    f32, "float", F32;
}

/// What pointers point to, by its name in C.
pub(crate) trait Pointee: 'static {
    const C: &'static str;
}

macro_rules! pointees {
    ($($type:ty, $c:literal;)*) => {$(
        impl Pointee for $type {
            const C: &'static str = $c;
        }
    )*};
}

macro_rules! c_structs {
    ($($(#[$doc:meta])* $name:ident, $c:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) enum $name {}
    )*
        pointees! { $($name, $c;)* }
    };
}

pointees! {
    u8, "u8";
    u16, "u16";
    u32, "u32";
    u64, "u64";
    f32, "float";
    f64, "double";
}

// Types that only kernels look into.
c_structs! {
    /// Two words.
    Uint2, "uint2";
    /// Four words: the widest access of a thread.
    Uint4, "uint4";
    Header, "Header";
    Totals, "Totals";
    Coefficients, "Coefficients";
    Task, "Task";
    Progress, "Progress";
    RecipeWords, "Recipe";
    /// f32, f16 or bf16, as a parameter `format` says.
    Values, "Values";
}

impl<T: Pointee> Field for *const T {
    fn c_type() -> String {
        format!("const {}*", T::C)
    }

    #[cfg(test)]
    fn value(self) -> Value {
        Value::Address { at: self.addr() as u64, of: T::C, constant: true }
    }
}

impl<T: Pointee> Field for *mut T {
    fn c_type() -> String {
        format!("{}*", T::C)
    }

    #[cfg(test)]
    fn value(self) -> Value {
        Value::Address { at: self.addr() as u64, of: T::C, constant: false }
    }
}

/// A pointer field.
pub(crate) trait Pointer: Field {
    fn at(address: u64) -> Self;
}

impl<T: Pointee> Pointer for *const T {
    fn at(address: u64) -> Self {
        std::ptr::without_provenance(address as usize)
    }
}

impl<T: Pointee> Pointer for *mut T {
    fn at(address: u64) -> Self {
        std::ptr::without_provenance_mut(address as usize)
    }
}

/// An address in device memory as a field; 0 is null.
pub(crate) fn ptr<P: Pointer>(address: u64) -> P {
    P::at(address)
}

/// A size as a field. Shapes are checked to fit when a plan is made.
pub(crate) fn size(value: usize) -> u32 {
    u32::try_from(value).expect("shapes are checked to fit")
}

/// A struct in C: name, bytes, and of each field its C type, name and offset.
fn declare(name: &str, bytes: usize, fields: &[(String, &str, usize)]) -> String {
    let members = fields.iter().map(|(c_type, field, _)| format!("    {c_type} {field};\n"));
    let offsets = fields.iter().map(|(_, field, offset)| {
        format!("static_assert(offsetof({name}, {field}) == {offset}, \"{field}\");\n")
    });
    let (members, offsets) = (members.collect::<String>(), offsets.collect::<String>());
    let size = format!("static_assert(sizeof({name}) == {bytes}, \"{name}\");\n");
    format!("struct {name} {{\n{members}}};\n{size}{offsets}")
}

/// Declares parameter structs.
macro_rules! params {
    ($(
        $(#[$doc:meta])*
        $name:ident for $kernel:literal { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }
    )*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        // SAFETY: `#[repr(C)]`, and C's compiler checks the size and every offset.
        unsafe impl $crate::kernels::params::Params for $name {
            const KERNEL: &'static str = $kernel;
            const NAME: &'static str = stringify!($name);

            fn declaration() -> String {
                let fields = [$((
                    <$type as $crate::kernels::params::Field>::c_type(),
                    stringify!($field),
                    std::mem::offset_of!($name, $field),
                )),*];
                $crate::kernels::params::declare(Self::NAME, size_of::<Self>(), &fields)
            }

            #[cfg(test)]
            fn fields(&self) -> Vec<(&'static str, $crate::kernels::params::Value)> {
                use $crate::kernels::params::Field;
                vec![$((stringify!($field), self.$field.value())),*]
            }
        }
    )*};
}
use params;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_struct_is_declared_for_both_languages() {
        assert_eq!(
            Unscale::declaration(),
            "struct Unscale {\n    const Header* header;\n    float* values;\n    u32 count;\n};\n\
             static_assert(sizeof(Unscale) == 24, \"Unscale\");\n\
             static_assert(offsetof(Unscale, header) == 0, \"header\");\n\
             static_assert(offsetof(Unscale, values) == 8, \"values\");\n\
             static_assert(offsetof(Unscale, count) == 16, \"count\");\n"
        );
        let unscale = Unscale { header: ptr(0), values: ptr(8), count: size(3) };
        let address = |at, of, constant| Value::Address { at, of, constant };
        let expected = [
            ("header", address(0, "Header", true)),
            ("values", address(8, "float", false)),
            ("count", Value::U32(3)),
        ];
        assert_eq!(unscale.fields(), expected);
    }
}
