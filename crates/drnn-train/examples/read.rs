//! Reads a file and says what is in it and how long that took: `read tagged|vectors|text|table FILE`.

use drnn_train::read::{Choice, Symbols, open, sentences, table, vectors};
use std::path::Path;
use std::time::Instant;

fn main() -> drnn_train::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, file] = &arguments[..] else {
        eprintln!("usage: read tagged|vectors|text|table FILE");
        std::process::exit(2);
    };
    let (path, start) = (Path::new(file), Instant::now());
    match kind.as_str() {
        "tagged" => {
            let all = sentences(open(path)?, None).collect::<drnn_train::Result<Vec<_>>>()?;
            let words: usize = all.iter().map(|sentence| sentence.words().count()).sum();
            let tokens: usize = all.iter().map(|sentence| sentence.tokens.len()).sum();
            println!("{} sentences, {words} words, {tokens} tokens", all.len());
        }
        "vectors" => {
            let all = vectors(open(path)?, |_| true)?;
            println!("{} words, {} wide, {} twice", all.len(), all.width(), all.duplicates());
        }
        "text" => {
            let alphabet = drnn_train::read::alphabet(open(path)?, 255)?;
            println!("alphabet: {:.3} s", start.elapsed().as_secs_f64());
            let symbols = Symbols::read(open(path)?, &alphabet)?;
            println!("{} characters of {} symbols", symbols.len(), alphabet.len());
        }
        _ => {
            let all = table(open(path)?, &Choice::default())?;
            println!("{} rows of {}", all.len(), all.columns.len());
        }
    }
    println!("{:.3} s", start.elapsed().as_secs_f64());
    Ok(())
}
