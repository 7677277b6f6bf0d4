//! `--device`: a GPU where one is requested, and the message where there is none.

mod common;

use common::{done, drnn, read, refused, text, write};
use drnn_cuda::Device;
use drnn_testing::{Need, skip};
use std::path::Path;

/// A training that takes a second.
const SMALL: &str = "sweep reversal --steps 5 --symbols 2 --units 8 --epochs 4 --sequences 100 \
                     --batch 20 --delays 0,4 --nets dlstm --threads 1";

/// Everything found but how long it took.
fn csv(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("sweep.csv")).unwrap();
    text.lines().map(|line| line.rsplit_once(',').unwrap().0.to_string()).collect()
}

#[test]
fn without_a_gpu_cuda_is_refused_and_auto_is_the_cpu() {
    let Err(missing) = Device::find() else {
        skip(Need::NoGpu, "there is a GPU");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for command in [&format!("{SMALL} --device cuda --out a")[..], "bench --device cuda"] {
        let said = refused(folder, command);
        assert!(said.contains(&format!("--device cuda: {missing}")), "{said}");
    }
    assert!(!folder.join("a").exists());
    done(folder, &format!("{SMALL} --device cpu --out cpu"));
    let output = drnn(folder, &format!("{SMALL} --device auto --out auto"));
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("on the CPU ("), "{}", text(&output.stderr));
    assert_eq!(csv(&folder.join("auto")), csv(&folder.join("cpu")));
}

/// Commands that run trained models.
#[test]
fn models_run_where_the_device_says() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "init --net dlstm --units 40 --delay 2 --inputs 3 --outputs 2 -o m.safetensors");
    let x: Vec<f32> = (0..5 * 4 * 3).map(|i| (i as f32).sin()).collect();
    write(&folder.join("x.npy"), &[5, 4, 3], &x);
    std::fs::write(folder.join("words"), "Ants\nrun\n").unwrap();
    let run = |device: &str, y: &str| format!("run m.safetensors x.npy --device {device} -o {y}");
    done(folder, &run("cpu", "cpu.npy"));
    let tag = |device: &str| format!("tag tagger-en words --from tokens --device {device}");
    let tags = done(folder, &tag("cpu"));
    let Err(missing) = Device::find() else {
        done(folder, &run("cuda --precision f32", "cuda.npy"));
        let [(_, ours), (_, cpus)] = ["cuda.npy", "cpu.npy"].map(|y| read(&folder.join(y)));
        assert!(ours.iter().zip(&cpus).all(|(a, b)| (a - b).abs() < 1e-5));
        assert_eq!(done(folder, &tag("cuda")), tags);
        return;
    };
    for command in [run("cuda", "y.npy"), tag("cuda")] {
        let said = refused(folder, &command);
        assert!(said.contains(&format!("--device cuda: {missing}")), "{said}");
    }
    assert!(!folder.join("y.npy").exists());
}

#[test]
fn taggers_need_a_gpu_too_and_unknown_devices_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    if let Err(missing) = Device::find() {
        std::fs::write(folder.path().join("a"), "the\tDET\nants\tNOUN\n").unwrap();
        for command in ["sweep tagger", "train tagger"] {
            let said =
                refused(folder.path(), &format!("{command} --train a --dev a --device cuda"));
            assert!(said.contains(&format!("--device cuda: {missing}")), "{said}");
        }
    }
    let said = refused(folder.path(), &format!("{SMALL} --device tpu"));
    assert!(said.contains("tpu") && said.contains("cuda"), "{said}");
}
