//! The name of the machine, for results.

use drnn::Cpu;

/// Processor and instruction set: `AMD EPYC, avx512`.
pub fn machine(cpu: &Cpu) -> String {
    match cpu_name() {
        Some(name) => format!("{name}, {}", cpu.instruction_set()),
        None => cpu.instruction_set().to_string(),
    }
}

/// The processor's name, where the system has it in `/proc/cpuinfo`.
pub fn cpu_name() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}
