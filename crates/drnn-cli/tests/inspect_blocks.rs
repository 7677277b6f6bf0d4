//! `drnn inspect` of stacks and of networks in blocks: table, JSON, picture.

mod common;

use common::{drnn, refused, text};
use drnn::{Blocks, Cell, Connections, Model, NetSpec, Padding, StartState};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A stack of 4 and 1 units, one wide at both ends, with all parameters 1: norms are easily computed.
fn ones() -> Model {
    let spec = NetSpec::builder(Cell::RnnTanh).dense(1).units([4, 1]).outputs(1).build().unwrap();
    Model::from_params(&spec, vec![1.0; spec.parameters()]).unwrap()
}

fn stack(widths: &[usize]) -> Model {
    let spec = NetSpec::builder(Cell::Lstm).dense(10).units(widths).outputs(5).build().unwrap();
    Model::init(&spec, 1).unwrap()
}

/// A folder with these models, each flattened, and flattened and freed of its constraints.
fn folder(models: &[(&str, Model)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, model) in models {
        let save = |what: &str, model: &Model| {
            model.save(folder.path().join(format!("{name}{what}.safetensors"))).unwrap();
        };
        save("", model);
        let flat = model.flatten(StartState::Held).unwrap();
        save("_flat", &flat);
        save("_free", &flat.relax(Connections::All).unwrap());
    }
    folder
}

/// The output of `inspect` after the table of tensors, without memory.
fn blocks_of(folder: &Path, file: &str) -> String {
    let output = drnn(folder, &format!("inspect {file}"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found = text(&output.stdout);
    let at = found.find("\ntotal ").unwrap() + 1;
    let (found, _) = found[at..].split_once("\nmemory, ").unwrap();
    found.split_once('\n').map_or(String::new(), |(_, found)| found.to_string())
}

#[test]
fn the_table_says_what_is_connected_and_how_strongly() {
    let folder = folder(&[("ones", ones())]);
    let table = "
         x     0     1
         1     4     1
0  4  2.00  4.00     .
1  1     .  2.00  1.00
y  1           .  1.00

block (i, j) connects layer j at step t to layer i at step t + j - i + 1:
  i = j      the same layer, one step on        norm 1.00 to 4.00
  i = j + 1  the layer above, at the same step  norm 2.00
";
    let found = blocks_of(folder.path(), "ones_flat.safetensors");
    let first = "\nblocks, their widths and norms: to (row) from (column); . is fixed at zero\n";
    assert_eq!(found, format!("{first}{table}"));
    // The stack has the same table.
    let found = blocks_of(folder.path(), "ones.safetensors");
    let first = "\nlayers, as the blocks of one layer that they would be flattened to, their widths \
                 and norms: to (row) from (column); . is fixed at zero\n";
    assert_eq!(found, format!("{first}{table}"));
    // Freed but not trained yet: zero, not kept at zero.
    let found = blocks_of(folder.path(), "ones_free.safetensors");
    assert!(found.contains("\n0  4  2.00  4.00     0\n1  1     0  2.00  1.00\n"), "{found}");
    assert!(
        found.ends_with("\n  i < j      further down, forward in time      norm 0\n"),
        "{found}"
    );
}

#[test]
fn many_blocks_stay_readable() {
    let folder = folder(&[("some", stack(&[8; 12])), ("many", stack(&[2; 17]))]);
    let found = blocks_of(folder.path(), "some_free.safetensors");
    assert!(found.lines().all(|line| line.len() < 100), "{found}");
    assert!(found.contains("\n11  8 "), "{found}");
    let found = blocks_of(folder.path(), "many_flat.safetensors");
    assert!(found.starts_with("\nblocks: 17, too many for a table; --json has"), "{found}");
    assert_eq!(found.lines().count(), 6);
    let found = refused(folder.path(), "inspect many_flat.safetensors --svg many.svg");
    assert!(found.contains("17 blocks are too many for --svg (at most 16)"), "{found}");
    assert!(!folder.path().join("many.svg").exists());
}

#[test]
fn json_has_the_blocks() {
    let folder = folder(&[("ones", ones())]);
    let blocks = |arguments: &str| {
        let output = drnn(folder.path(), &format!("inspect {arguments} --json"));
        assert!(output.status.success(), "{}", text(&output.stderr));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        value["blocks"].clone()
    };
    let mut expected = json!({
        "widths": [4, 1],
        "connections": "stacked",
        "start": "held",
        "norms": [[4.0, 0.0], [2.0, 1.0]],
        "input": [2.0, 0.0],
        "output": [0.0, 1.0],
    });
    assert_eq!(blocks("ones_flat.safetensors"), expected);
    assert_eq!(blocks("ones.safetensors"), expected);
    expected["connections"] = json!("all");
    assert_eq!(blocks("ones_free.safetensors"), expected);
    assert_eq!(blocks("--net lstm --layers 2"), Value::Null); // no weights
    let spec = NetSpec::builder(Cell::Gru).dense(2).units([3, 2]).build().unwrap();
    Model::init(&spec, 1).unwrap().save(folder.path().join("gru.safetensors")).unwrap();
    assert_eq!(blocks("gru.safetensors")["output"], Value::Null);
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../drnn/tests/golden");
    assert_eq!(blocks(&format!("{golden}/lstm_2x5_both_ways.safetensors")), Value::Null);
}

/// Draws `file` and returns the picture, which is well-formed.
fn picture(folder: &Path, file: &str) -> String {
    let output = drnn(folder, &format!("inspect {file} --svg blocks.svg"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("\ntotal "));
    assert_eq!(text(&output.stderr), "wrote blocks.svg\n");
    let svg = std::fs::read_to_string(folder.join("blocks.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1) {
        let (tag, after) = tag.split_once('>').unwrap();
        assert!(!after.contains('&') || after.contains(';'), "{after}");
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{svg}"),
            None if tag.ends_with('/') => assert_eq!(tag.matches('"').count() % 2, 0, "{tag}"),
            None => open.push(tag.split(' ').next().unwrap()),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    svg
}

#[test]
fn the_picture_has_an_arrow_for_each_connection() {
    let mut models = Vec::new();
    for (name, widths) in [("2", &[6; 2][..]), ("4", &[9, 7, 5, 2]), ("6", &[3; 6])] {
        models.push((name, stack(widths)));
    }
    let folder = folder(&models);
    for (name, k) in [("2", 2), ("4", 4), ("6", 6)] {
        let flat = picture(folder.path(), &format!("{name}_flat.safetensors"));
        assert!(!flat.contains("dashed c"), "a stack has no others");
        // At each of four steps, and in the legend.
        assert_eq!(flat.matches("line arrow c1").count(), 4 * k + 1);
        assert_eq!(flat.matches("line arrow c2").count(), 4 * (k - 1) + 1);
        assert_eq!(flat.matches("<circle ").count(), 4 * k);
        assert_eq!(flat.matches("fill-opacity").count(), 2 * k - 1 + 2);
        // Nothing was learned: the same arrows, and zeros.
        let free = picture(folder.path(), &format!("{name}_free.safetensors"));
        assert_eq!(free.matches("line arrow").count(), flat.matches("line arrow").count());
        let is_zero =
            |l: &&str| l.starts_with(r#"<text class="soft small mid""#) && l.ends_with(">0</text>");
        assert_eq!(free.lines().filter(is_zero).count(), (k - 1) * (k - 1) + 2 * (k - 1));
        // The stack's own picture differs in its title only.
        let stack = picture(folder.path(), &format!("{name}.safetensors"));
        let drawing = |svg: &str| {
            svg.split_once("class=\"title\"").unwrap().1.split_once('\n').map(|s| s.1.to_string())
        };
        assert_eq!(drawing(&stack), drawing(&flat));

        let blocks = Blocks::new(vec![3; k]).connections(Connections::All);
        let spec = NetSpec::builder(Cell::Gru).dense(2).outputs(2).blocks(blocks);
        let spec = spec.delay(k + 1, Padding::Null).build().unwrap();
        Model::init(&spec, 1).unwrap().save(folder.path().join("all.safetensors")).unwrap();
        let all = picture(folder.path(), "all.safetensors");
        // Each other connection once, and once in the legend.
        let times = |n: usize| if n > 0 { n + 1 } else { 0 };
        assert_eq!(all.matches("dashed c0").count(), times((k - 1) * (k - 2) / 2), "back");
        assert_eq!(all.matches("dashed c5").count(), times(k * (k - 1) / 2), "forward");
        assert_eq!(all.matches("dashed c4").count(), k - 1, "from x");
        assert_eq!(all.matches("dashed c3").count(), k - 1, "to y");
        assert_eq!(all.matches("fill-opacity").count(), k * k + 2 * k);
    }
}

#[test]
fn the_picture_in_the_docs_is_the_one_that_the_command_draws() {
    let folder = folder(&[("four", stack(&[64; 4]))]);
    let shown = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/blocks.svg");
    let shown = std::fs::read_to_string(shown).unwrap().replace('\r', "");
    assert_eq!(picture(folder.path(), "four_flat.safetensors"), shown);
}

#[test]
fn networks_without_blocks_are_refused_and_files_left_alone() {
    let folder = folder(&[("ones", ones())]);
    let spec = NetSpec::builder(Cell::Lstm).dense(2).units([3]).delay(2, Padding::Null);
    Model::init(&spec.build().unwrap(), 1)
        .unwrap()
        .save(folder.path().join("one.safetensors"))
        .unwrap();
    let both: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "..", "drnn", "tests", "golden"].iter().collect();
    std::fs::copy(
        both.join("lstm_2x5_both_ways.safetensors"),
        folder.path().join("both.safetensors"),
    )
    .unwrap();
    std::fs::write(folder.path().join("old.svg"), "old").unwrap();
    let refused = |arguments: &str| refused(folder.path(), arguments);
    let found = refused("inspect one.safetensors --svg old.svg");
    assert!(found.contains("one.safetensors: dlstm(3 units, delay 2)"), "{found}");
    assert!(found.contains("nothing to draw for --svg: it is one layer"), "{found}");
    let found = refused("inspect both.safetensors --svg old.svg");
    assert!(found.contains("it is bidirectional"), "{found}");
    assert!(refused("inspect nowhere.safetensors --svg old.svg").contains("cannot be read"));
    assert!(
        refused("inspect --net lstm --layers 2 --svg old.svg").contains("--svg needs a model file")
    );
    assert_eq!(std::fs::read_to_string(folder.path().join("old.svg")).unwrap(), "old");
    let found = refused("inspect ones.safetensors --svg no/such/folder.svg");
    assert!(found.contains("folder.svg: cannot be written"), "{found}");
    // Without blocks there is nothing after the table of tensors.
    assert_eq!(blocks_of(folder.path(), "one.safetensors"), "");
}
