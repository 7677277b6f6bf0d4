#!/bin/sh
# Installs the C library: header, shared and static library, pkg-config file.
#
#     ./install.sh PREFIX              builds with cargo, and installs to PREFIX/include and PREFIX/lib
#     ./install.sh PREFIX FOLDER       installs libdrnn_c.so and libdrnn_c.a that were built to FOLDER
#
# LIBDIR names another folder than PREFIX/lib, DESTDIR (for packagers) goes before both. Without root:
# PREFIX=$HOME/.local.
set -eu

[ $# = 1 ] || [ $# = 2 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${DESTDIR:-}$1"
prefix=$(cd "${DESTDIR:-}$1" && pwd)
prefix=${prefix#"${DESTDIR:-}"}
libdir=${LIBDIR:-$prefix/lib}

if [ $# = 2 ]; then
    built=$2
else
    cargo build --release --manifest-path "$here/Cargo.toml" --lib
    built=$(cargo metadata --no-deps --format-version 1 --manifest-path "$here/Cargo.toml" |
        sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release
fi

number() { sed -n "s/^#define DRNN_VERSION_$1 //p" "$here/include/drnn.h"; }
major=$(number MAJOR) minor=$(number MINOR) patch=$(number PATCH)
version=$major.$minor.$patch
# As in build.rs.
abi=$major
if [ "$major" = 0 ]; then abi=0.$minor; fi

include=${DESTDIR:-}$prefix/include lib=${DESTDIR:-}$libdir
mkdir -p "$include" "$lib/pkgconfig"
install -m 644 "$here/include/drnn.h" "$include/drnn.h"
install -m 644 "$built/libdrnn_c.a" "$lib/libdrnn.a"
if [ "$(uname)" = Darwin ]; then
    install -m 755 "$built/libdrnn_c.dylib" "$lib/libdrnn.$version.dylib"
    ln -sf "libdrnn.$version.dylib" "$lib/libdrnn.$abi.dylib"
    ln -sf "libdrnn.$abi.dylib" "$lib/libdrnn.dylib"
    private="-lSystem -lc -lm"
else
    install -m 755 "$built/libdrnn_c.so" "$lib/libdrnn.so.$version"
    ln -sf "libdrnn.so.$version" "$lib/libdrnn.so.$abi"
    ln -sf "libdrnn.so.$abi" "$lib/libdrnn.so"
    private="-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc"
    # Without the tables for backtraces it is a tenth as large.
    if command -v strip >/dev/null; then
        strip --strip-unneeded "$lib/libdrnn.so.$version"
        strip --strip-debug "$lib/libdrnn.a"
    fi
fi

cat >"$lib/pkgconfig/drnn.pc" <<END
prefix=$prefix
includedir=\${prefix}/include
libdir=${LIBDIR:-\${prefix\}/lib}

Name: drnn
Description: Delayed recurrent networks: load, run, stream
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -ldrnn
Libs.private: $private
END
echo "installed drnn $version to $prefix (PKG_CONFIG_PATH=$libdir/pkgconfig)"
