//! How much memory this process can still allocate.
//!
//! On Linux the minimum of the available memory, the limits of control groups (`memory.max` in
//! version 2, `memory.limit_in_bytes` in version 1) and `ulimit -v`. Unknown elsewhere.

use std::path::{Path, PathBuf};

/// Free memory in bytes; None if unknown.
pub fn free() -> Option<u64> {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    from_files(&read)
}

/// The same; `read` returns the text of a file if it exists.
fn from_files(read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let system = read(Path::new("/proc/meminfo")).and_then(|text| available(&text));
    let address_space = || {
        let limits = read(Path::new("/proc/self/limits"))?;
        let used = read(Path::new("/proc/self/status"))?;
        Some(address_space_limit(&limits)?.saturating_sub(kilobytes(&used, "VmSize:")?))
    };
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let groups = groups.lines().filter_map(|line| left_of_group(line, read)).min();
    [system, groups, address_space()].into_iter().flatten().min()
}

/// `MemAvailable:   123 kB` of /proc/meminfo.
fn available(meminfo: &str) -> Option<u64> {
    kilobytes(meminfo, "MemAvailable:")
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// `Max address space   SOFT   HARD   bytes` of /proc/self/limits; None where it is unlimited.
fn address_space_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The smallest remainder of the group in a line of /proc/self/cgroup and of the groups above it.
fn left_of_group(line: &str, read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, group) = (fields.next()?, fields.next()?);
    let (root, limit, used) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max", "memory.current"),
        list if list.split(',').any(|name| name == "memory") => {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
        }
        _ => return None,
    };
    let number = |path: PathBuf| read(&path)?.trim().parse::<u64>().ok();
    // Within a container the path may be that of the host: the root is then the group itself.
    let group = Path::new(root).join(group.trim_start_matches('/'));
    let groups = group.ancestors().take_while(|path| path.starts_with(root));
    let left = |path: &Path| {
        let limit = number(path.join(limit))?; // "max" is not a number
        let statistics = read(&path.join("memory.stat")).unwrap_or_default();
        let used = number(path.join(used)).unwrap_or(0).saturating_sub(reclaimable(&statistics));
        Some(limit.saturating_sub(used))
    };
    groups.filter_map(left).min()
}

/// The bytes of a group's usage that are inactive page cache, which the system can reclaim.
fn reclaimable(statistics: &str) -> u64 {
    let of = |name: &str| {
        let line = statistics.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<u64>().ok()
    };
    of("total_inactive_file ").or_else(|| of("inactive_file ")).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: (&str, &str) =
        ("/proc/meminfo", "MemTotal:  16 kB\nMemFree: 1 kB\nMemAvailable:    8192 kB\n");

    fn free_with(files: &[(&str, &str)]) -> Option<u64> {
        from_files(&|path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| text.to_string())
        })
    }

    #[test]
    fn the_least_of_what_limits_it() {
        assert_eq!(free_with(&[]), None);
        assert_eq!(free_with(&[("/proc/meminfo", "MemAvailable: many kB")]), None);
        assert_eq!(free_with(&[MEMINFO]), Some(8 << 20));
        let limits = |soft: &str| {
            format!("Limit  Soft  Hard  Units\nMax address space   {soft}   unlimited   bytes\n")
        };
        let status = ("/proc/self/status", "Name: drnn\nVmSize:\t  1024 kB\nVmRSS: 8 kB\n");
        let free = |soft: &str| free_with(&[MEMINFO, ("/proc/self/limits", &limits(soft)), status]);
        assert_eq!(free("unlimited"), Some(8 << 20));
        assert_eq!(free("3145728"), Some(2 << 20));
        assert_eq!(free("1000"), Some(0));
    }

    #[test]
    fn control_groups_of_both_versions() {
        let two = [
            MEMINFO,
            ("/proc/self/cgroup", "0::/jobs/one\n"),
            ("/sys/fs/cgroup/jobs/one/memory.max", "max\n"),
            ("/sys/fs/cgroup/jobs/memory.max", "5000000\n"),
            ("/sys/fs/cgroup/jobs/memory.current", "3000000\n"),
            ("/sys/fs/cgroup/jobs/memory.stat", "anon 5\nfile 7\ninactive_file 1000000\n"),
        ];
        assert_eq!(free_with(&two), Some(3_000_000));
        let one = [
            MEMINFO,
            ("/proc/self/cgroup", "3:cpu,cpuacct:/a\n2:memory:/of-the-host/b\n1:name=x:/\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4000000\n"),
            ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1500000\n"),
        ];
        assert_eq!(free_with(&one), Some(2_500_000));
        let unlimited = [MEMINFO, one[1], (one[2].0, "9223372036854771712\n"), one[3]];
        assert_eq!(free_with(&unlimited), Some(8 << 20));
    }
}
