//! Why a command ends early, and the exit code that says so.

use std::io::ErrorKind;

/// The longest error message that is printed, in characters: messages quote users' files.
const MAX_MESSAGE: usize = 4_000;

/// Why the program ends before its work is done.
#[derive(Debug)]
pub enum Failure {
    /// Bad usage or bad input, which the user can mend: exit code 2.
    Input(String),
    /// The result could not be written: exit code 2, or 0 where the reader closed the pipe.
    Output(std::io::Error),
    /// A check of the results failed: exit code 1.
    Check(String),
    /// Stopped by Ctrl-C, with everything done so far on disk: exit code 130.
    Interrupted(String),
}

impl Failure {
    /// Prints the message to stderr and returns the exit code.
    pub fn report(self) -> u8 {
        match self {
            // The reader of our output has seen enough: `drnn bench | head`.
            Failure::Output(error) if error.kind() == ErrorKind::BrokenPipe => 0,
            Failure::Output(error) => {
                eprintln!("error: cannot write the result: {error}");
                2
            }
            Failure::Input(message) => {
                eprintln!("error: {}", drnn::text::shortened(&message, MAX_MESSAGE));
                2
            }
            Failure::Check(message) => {
                eprintln!("check failed: {message}");
                1
            }
            Failure::Interrupted(message) => {
                eprintln!("{message}");
                130
            }
        }
    }
}

impl From<drnn::Error> for Failure {
    fn from(error: drnn::Error) -> Failure {
        Failure::Input(error.to_string())
    }
}

impl From<drnn_tasks::Error> for Failure {
    fn from(error: drnn_tasks::Error) -> Failure {
        Failure::Input(error.to_string())
    }
}

impl From<drnn_train::Error> for Failure {
    fn from(error: drnn_train::Error) -> Failure {
        Failure::Input(error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::Output(error)
    }
}
