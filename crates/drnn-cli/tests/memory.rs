//! Sizes that do not fit: refused with the number, before anything is allocated or written.

mod common;

use common::{done, refused, text, write};
use std::path::Path;
use std::process::Command;

/// A table, a text and tagged words: enough to begin a training with.
fn data(folder: &Path) {
    let rows: String = (0..600).map(|t| format!("{},{}\n", t % 7, t % 5)).collect();
    std::fs::write(folder.join("a.csv"), format!("x,y\n{rows}")).unwrap();
    std::fs::write(folder.join("a.txt"), "the quick brown fox jumps. ".repeat(400)).unwrap();
    let words = "the\tDET\nfox\tNOUN\njumps\tVERB\n\nthe\tDET\ndog\tNOUN\n\n".repeat(30);
    std::fs::write(folder.join("a.tsv"), words).unwrap();
}

/// What no machine has is refused everywhere, with exit code 2, what it would take, and how to try
/// it all the same.
#[test]
fn sizes_beyond_all_memory_are_refused_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    data(folder);
    for arguments in [
        "init --net lstm --units 1000000 -o a.safetensors",
        "init --net bigru --layers 3 --units 500000 -o a.safetensors",
        "init --net dlstm --delay 99 --blocks all --layers 100 --units 100000 -o a.safetensors",
        "init --net rnn --symbols 4000000000 --embedding 100000 -o a.safetensors",
        "init --net rnn --inputs 1000000000 --units 100000 -o a.safetensors",
        "init --net rnn --outputs 1000000000 --units 100000 -o a.safetensors",
        "train series --csv a.csv --target y --net lstm --units 1000000",
        "train series --csv a.csv --target y --net bigru --units 50000,500000,50000",
        "train series --csv a.csv --target y --delay 1048576 --units 300000",
        "train chars --text a.txt --net lstm --units 1000000 --window 100",
        "train chars --text a.txt --delay 5 --window 100 --units 400000,400000",
        "sweep series --csv a.csv --target y --units 4096 --layers 20 --repeats 100 --delays 0,1",
        "sweep chars --text a.txt --window 100 --units 4096 --layers 20 --repeats 100",
        "sweep reversal --steps 1000 --symbols 1000 --sequences 1000000",
        "sweep reversal --units 4096 --layers 20 --repeats 100",
        "sweep sine --units 4096 --layers 20 --repeats 100",
        "sweep tagger --train a.tsv --dev a.tsv --test a.tsv --units 4096 --repeats 100 \
         --nets dlstm --delays 0,1",
        "reproduce reversal --full --repeats 100 --sequences 10000000",
    ] {
        let said = refused(folder, arguments);
        assert!(said.contains("needs about"), "{arguments}: {said}");
        assert!(said.contains("is free") && said.contains("--force"), "{arguments}: {said}");
        assert!(!folder.join("out").exists() && !folder.join("a.safetensors").exists());
    }
    for (arguments, why) in [
        ("init --net dlstm --delay 1000000000 -o a.safetensors", "a delay of 1000000000 (at most"),
        ("init --net lstm --units 10000000000 -o a.safetensors", "cannot be addressed"),
        ("init --net lstm --units 18446744073709551615 -o a.safetensors", "cannot be addressed"),
        ("init --net dgru --delay 1 --blocks all --units 9999999999,9999999999 -o a", "addressed"),
        ("train series --csv a.csv --target y --net lstm --batch 1000000", "batches of 1000000"),
        ("inspect --net lstm --units 10000000000", "cannot be addressed"),
    ] {
        assert!(refused(folder, arguments).contains(why), "{arguments}");
    }
}

/// Limits of the process count as what is free.
#[cfg(target_os = "linux")]
#[test]
fn what_a_limit_leaves_is_what_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let limited = |kilobytes: usize, arguments: &str| {
        let program = env!("CARGO_BIN_EXE_drnn");
        let shell = format!("ulimit -v {kilobytes}; DRNN_THREADS=1 exec {program} {arguments}");
        let output = Command::new("sh").current_dir(folder).args(["-c", &shell]).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let (code, said) = limited(2_000_000, "init --net lstm --units 12000 -o a.safetensors");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("needs about 4.6 GB of memory (weights 4.6 GB), "), "{said}");
    assert!(said.contains(" 2.0 GB is free") || said.contains(" 1."), "{said}");
    let units = said.split("--units ").filter_map(|rest| rest.split(' ').next()?.parse().ok());
    let units: usize = units.max().expect("the size that would fit");
    assert!((4_000..9_000).contains(&units), "{said}");
    std::fs::write(folder.join("a.csv"), "x,y\n".to_string() + &"1,2\n3,4\n".repeat(50)).unwrap();
    let train = "train series --csv a.csv --target y --net lstm --units 60000";
    let (code, said) = limited(2_000_000, train);
    assert!(code == Some(2) && said.contains("need less, --units "), "{said}");
    // A batch that a file names: 1,000 sequences that run for a million steps after their only
    // element.
    done(folder, "init --net drnn --delay 1000000 --units 100 -o late.safetensors");
    write(&folder.join("x.npy"), &[1, 1000, 1], &[0.5f32; 1000]);
    let (code, said) = limited(2_000_000, "run late.safetensors x.npy -o y.npy");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("needs about") && said.contains("(states"), "{said}");
    assert!(said.contains("sequences at once would fit"), "{said}");
    // Tried all the same, and refused by the library instead of ending the program.
    let (code, said) = limited(2_000_000, "run late.safetensors x.npy -o y.npy --force");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("x.npy: too large: this batch needs"), "{said}");
    assert!(!folder.join("y.npy").exists());
    // Weights of one layer are many more than those of the stack that it stands for.
    done(folder, "init --net lstm --layers 8 --units 600 -o stack.safetensors");
    let (code, said) = limited(600_000, "flatten stack.safetensors -o flat.safetensors");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("one layer's weights"), "{said}");
    assert!(!folder.join("flat.safetensors").exists());
    // A file whose weights do not fit: refused before it is read.
    for arguments in ["inspect stack.safetensors", "eval stack.safetensors x.npy"] {
        let (code, said) = limited(250_000, arguments);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("stack.safetensors: needs about"), "{said}");
    }
}

#[test]
fn inspect_says_what_memory_a_network_takes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let net = "--net dlstm --delay 5 --units 100 --inputs 4 --outputs 4";
    let of = |options: &str| -> serde_json::Value {
        let said = done(folder, &format!("inspect {options} --json"));
        let value: serde_json::Value = serde_json::from_str(&said).unwrap();
        value["memory"].clone()
    };
    let (small, large) = (of(net), of(&format!("{net} --batch 320 --steps 1000")));
    assert_eq!((&small["batch"], &small["steps"]), (&32.into(), &100.into()));
    for key in ["run", "training", "training_gpu"] {
        let [small, large] = [&small, &large].map(|of| of[key].as_u64().unwrap());
        assert!(small > 100_000 && large > 20 * small, "{key}: {small} {large}");
    }
    assert_eq!((&small["model"], &small["stream"]), (&large["model"], &large["stream"]));
    // The file has the same weights, and there is a copy in the kernels' layout.
    done(folder, &format!("init {net} -o a.safetensors"));
    assert_eq!(of("a.safetensors")["training"], small["training"]);
    let parameters = 100 * 4 * (100 + 4 + 2) + 4 * 101;
    let model = small["model"].as_u64().unwrap();
    assert!((8 * parameters..9 * parameters).contains(&model), "{model}");
    let text = done(folder, "inspect a.safetensors --batch 7 --steps 1000");
    assert!(text.contains("memory, run"), "{text}");
    assert!(text.contains("over 7 sequences of 1,000 elements"), "{text}");
    // The largest there can be, without taking any of it.
    let text = done(folder, "inspect --net bigru --layers 3 --units 50000 --batch 1000000");
    assert!(text.contains("memory, model") && text.contains(" TB"), "{text}");
    assert!(of("--net bilstm --units 8")["stream"].is_null());
}

#[test]
fn threads_beyond_all_cores_work() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    data(folder);
    done(
        folder,
        "train series --csv a.csv --target y --net lstm --units 4 --epochs 1 --threads 1024",
    );
}
