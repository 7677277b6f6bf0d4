//! The executable `drnn`.

use std::process::ExitCode;

fn main() -> ExitCode {
    drnn_cli::prepare();
    ExitCode::from(drnn_cli::run(std::env::args_os()))
}
