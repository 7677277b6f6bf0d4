//! A server that is stopped and started repeatedly.

use crate::memory::Memory;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::time::sleep;

/// A hang guard.
const LONG: Duration = Duration::from_secs(30);

/// Starts the server and stops it by SIGTERM after `every`, repeatedly until `until`. Returns how each
/// one exited; all must exit with code 0.
pub async fn restart_repeatedly(
    program: &str,
    address: &str,
    every: Duration,
    until: Instant,
) -> Result<Vec<String>, String> {
    let mut ends = Vec::new();
    while Instant::now() < until {
        let mut server = start(program, address).await?;
        let memory = Memory::watch(Some(server.id()));
        let life = until.saturating_duration_since(Instant::now());
        // The last one runs longer than its clients.
        if life > every {
            sleep(every).await;
        } else {
            sleep(life + LONG / 3).await;
        }
        let report = memory.report();
        let code = end(&mut server).await?;
        ends.push(format!("exit code {code}, memory {report}"));
        if code != 0 {
            return Err(format!("the server ended with {code}"));
        }
    }
    Ok(ends)
}

async fn start(program: &str, address: &str) -> Result<Child, String> {
    let mut words = program.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).args(["--listen", address]).stderr(Stdio::null());
    let server = command.spawn().map_err(|e| format!("{program}: {e}"))?;
    let begun = Instant::now();
    while begun.elapsed() < LONG {
        if TcpStream::connect(address).await.is_ok() {
            return Ok(server);
        }
        sleep(Duration::from_millis(20)).await;
    }
    Err(format!("{program} does not respond at {address}"))
}

/// Its exit code.
async fn end(server: &mut Child) -> Result<i32, String> {
    let signalled = Command::new("kill").args(["-TERM", &server.id().to_string()]).status();
    signalled.map_err(|e| format!("kill: {e}"))?;
    let begun = Instant::now();
    while begun.elapsed() < LONG {
        if let Some(status) = server.try_wait().map_err(|e| e.to_string())? {
            return Ok(status.code().unwrap_or(-1));
        }
        sleep(Duration::from_millis(20)).await;
    }
    let _ = server.kill();
    Err("the server does not end".into())
}
