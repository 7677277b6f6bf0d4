//! What is recognised in other programs' files by names and shapes: cells, stacks of cells, embeddings
//! and output layers; and what is refused or left out, by name.

use drnn::{Cell, Import, Imported, Model, NetSpec, Part};
use safetensors::serialize;
use safetensors::tensor::{Dtype, TensorView};

/// A file of these tensors, as PyTorch would write it.
fn file(tensors: &[(String, Vec<usize>, Vec<f32>)]) -> Vec<u8> {
    let bytes = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let data: Vec<Vec<u8>> = tensors.iter().map(|(.., values)| bytes(values)).collect();
    let views = tensors.iter().zip(&data).map(|((name, dims, _), data)| {
        (name, TensorView::new(Dtype::F32, dims.clone(), data).unwrap())
    });
    serialize(views, None).unwrap()
}

/// A model's tensors under other names.
fn renamed(model: &Model, name: impl Fn(&str) -> String) -> Vec<(String, Vec<usize>, Vec<f32>)> {
    let layout = drnn::params::Layout::new(model.spec());
    let tensors = layout.tensors().iter();
    tensors
        .map(|t| (name(&t.name), t.dims.clone(), model.params()[t.range.clone()].to_vec()))
        .collect()
}

/// More tensors, of these shapes.
fn with(
    mut tensors: Vec<(String, Vec<usize>, Vec<f32>)>,
    more: &[(&str, &[usize])],
) -> Vec<(String, Vec<usize>, Vec<f32>)> {
    tensors.extend(
        more.iter().map(|(name, dims)| {
            (name.to_string(), dims.to_vec(), vec![0.5; dims.iter().product()])
        }),
    );
    tensors
}

fn import(
    tensors: &[(String, Vec<usize>, Vec<f32>)],
    options: &Import,
) -> Result<Imported, String> {
    Imported::from_bytes(&file(tensors), options).map_err(|e| e.to_string())
}

fn prefix(prefix: &str) -> Import {
    Import { prefix: Some(prefix.into()), ..Import::default() }
}

fn model(cell: Cell, units: &[usize]) -> Model {
    Model::init(&NetSpec::builder(cell).dense(3).units(units).build().unwrap(), 7).unwrap()
}

/// nn.LSTM(proj_size=..): `weight_hr` says how many units there are, `weight_hh` how wide h is.
#[test]
fn projected_lstms() {
    let builder = || NetSpec::builder(Cell::Lstm).projection(2);
    let one = builder().dense(3).units([5]);
    let both = builder().dense(3).units([5, 5]).bidirectional();
    let whole = builder().tokens(9, 3).units([4, 4]).outputs(6);
    for builder in [one, both, whole] {
        let model = Model::init(&builder.build().unwrap(), 7).unwrap();
        let name = |name: &str| match name.split_once('.') {
            Some((part, rest)) => format!("{part}.{rest}"),
            None => format!("rnn.{name}"),
        };
        let found = import(&renamed(&model, name), &Import::default()).unwrap().model;
        assert_eq!(found.spec(), model.spec());
        assert_eq!(found.params(), model.params());
    }
}

/// Token input, two layers, an output layer.
fn whole(cell: Cell) -> Model {
    let spec = NetSpec::builder(cell).tokens(9, 3).units([4, 4]).outputs(6).build().unwrap();
    Model::init(&spec, 7).unwrap()
}

#[track_caller]
fn same(found: &Result<Imported, String>, expected: &Model) {
    let found = &found.as_ref().unwrap().model;
    assert_eq!((found.spec(), found.params()), (expected.spec(), expected.params()));
}

/// `weight_ih_l0` as a cell has it, under a prefix.
fn cell_name(prefix: &str, name: &str) -> String {
    format!("{prefix}{}", name.strip_suffix("_l0").unwrap())
}

#[test]
fn cells_are_one_layer_under_any_prefix() {
    for cell in [Cell::Lstm, Cell::Gru, Cell::RnnTanh] {
        let model = model(cell, &[4]);
        for before in ["", "cell.", "module.decoder.rnn_cell."] {
            let tensors = renamed(&model, |name| cell_name(before, name));
            same(&import(&tensors, &Import::default()), &model);
        }
        let without: Vec<_> = renamed(&model, |name| cell_name("cell.", name));
        let without = &without[..2];
        let zeros = import(without, &Import::default()).unwrap().model;
        let half = zeros.params().len() - 2 * cell.gates() * 4;
        assert_eq!(zeros.params()[..half], model.params()[..half]);
        assert!(zeros.params()[half..].iter().all(|x| *x == 0.0));
    }
}

#[test]
fn numbered_cells_are_a_stack() {
    let model = model(Cell::Lstm, &[4, 5, 2]);
    for base in ["cells.", "lstm"] {
        let name = |name: &str| {
            let (kind, layer) = name.rsplit_once("_l").unwrap();
            format!("{base}{layer}.{kind}")
        };
        let tensors = renamed(&model, name);
        let found = import(&tensors, &Import::default());
        same(&found, &model);
        let notes = found.unwrap().notes.join("\n");
        assert!(notes.contains(&format!("`{base}0.`, `{base}1.`, `{base}2.` are read")), "{notes}");
        same(&import(&tensors, &prefix(base)), &model);
        let one = import(&tensors, &prefix(&format!("{base}1"))).unwrap().model;
        assert_eq!((one.spec().layers(), one.spec().units()), (1, &[5][..]));
    }
    // Numbered networks that are no cells may be parallel: only where the prefix of all is given.
    let model = self::model(Cell::Gru, &[4, 4]);
    let tensors = renamed(&model, |name| {
        let (kind, layer) = name.rsplit_once("_l").unwrap();
        format!("rnns.{layer}.{kind}_l0")
    });
    let error = import(&tensors, &Import::default()).err().unwrap();
    let listed = "`rnns.0.` (gru 3 -> 4), `rnns.1.` (gru 4 -> 4)";
    assert!(error.contains(listed) && error.contains("--prefix rnns.0"), "{error}");
    same(&import(&tensors, &prefix("rnns")), &model);
    // Widths that do not fit are no stack.
    let apart = with(vec![], &[("c.0.weight_ih", &[4, 1]), ("c.0.weight_hh", &[4, 1])]);
    let apart = with(apart, &[("c.1.weight_ih", &[4, 2]), ("c.1.weight_hh", &[4, 1])]);
    assert!(
        import(&apart, &Import::default()).err().unwrap().contains("holds 2 recurrent networks")
    );
}

#[test]
fn prefixes_with_and_without_their_dot() {
    let model = model(Cell::Gru, &[4, 4]);
    let tensors = renamed(&model, |name| format!("module.encoder.rnn.{name}"));
    for given in
        ["module.encoder.rnn.", "module.encoder.rnn", "encoder.rnn", "rnn", "module", "encoder."]
    {
        same(&import(&tensors, &prefix(given)), &model);
    }
    let error = import(&tensors, &prefix("decoder")).err().unwrap();
    let expected = "no recurrent network has the prefix `decoder`; \
                    prefixes that have one: `module.encoder.rnn.` (gru 3 -> 4 -> 4)";
    assert!(error.contains(expected), "{error}");
    // An exact prefix wins over one that contains it.
    let both = [renamed(&model, |n| format!("rnn.{n}")), renamed(&model, |n| format!("a.rnn.{n}"))];
    let both = both.concat();
    same(&import(&both, &prefix("rnn")), &model);
    assert!(import(&both, &prefix("a")).is_ok());
}

#[test]
fn names_of_numpy_files() {
    let decoder = model(Cell::Gru, &[4]);
    let spec = NetSpec::builder(Cell::Gru).tokens(9, 3).units([4]).build().unwrap();
    let embedded = Model::init(&spec, 3).unwrap();
    let short = |name: &str| {
        let name = name.replace("weight_", "w_").replace("bias_", "b_").replace("_l0", "");
        name.replace("embedding.weight", "emb")
    };
    let mut tensors = renamed(&embedded, |name| format!("enc_{}", short(name)));
    tensors.extend(renamed(&decoder, |name| format!("dec_{}", short(name))));
    let tensors = with(tensors, &[("dec_emb", &[8, 3]), ("fc_w", &[5, 4]), ("fc_b", &[5])]);
    assert!(import(&tensors, &Import::default()).err().unwrap().contains("`dec_` (gru 3 -> 4)"));
    same(&import(&tensors, &prefix("enc")), &embedded);
    same(&import(&tensors, &prefix("enc_")), &embedded);
    let found = import(&tensors, &prefix("dec")).unwrap();
    let spec = found.model.spec().to_string();
    assert!(spec.contains("8 symbols -> 3 -> 4;"), "{spec}");
    assert!(found.notes.join(" ").contains("--output-layer fc"), "{:?}", found.notes);
    let output = Import { output: Part::Named("fc".into()), ..prefix("dec") };
    let spec = import(&tensors, &output).unwrap().model.spec().to_string();
    assert!(spec.contains("8 symbols -> 3 -> 4 -> 5;"), "{spec}");
}

#[test]
fn embedding_recurrence_and_output_layer_are_one_model() {
    for cell in [Cell::Lstm, Cell::Gru, Cell::RnnTanh] {
        let model = whole(cell);
        for [embedding, rnn, output] in [
            ["embedding", "rnn.", "fc"],
            ["encoder", "rnn.", "decoder"],
            ["module.word_embeddings", "module.lstm.", "module.hidden2tag"],
            ["state_dict.emb", "state_dict.rnn.gru.", "state_dict.head"],
        ] {
            let name = |name: &str| match name.split_once('.') {
                Some(("embedding", kind)) => format!("{embedding}.{kind}"),
                Some((_, kind)) => format!("{output}.{kind}"),
                None => format!("{rnn}{name}"),
            };
            let tensors = with(renamed(&model, name), &[]);
            let found = import(&tensors, &Import::default());
            same(&found, &model);
            let found = found.unwrap();
            assert!(found.ignored.is_empty(), "{:?}", found.ignored);
            let expected = format!(
                "read as one model: `{embedding}.weight [9, 3]` -> `{rnn}` -> `{output}.weight [6, 4]`"
            );
            assert!(found.notes.join(" ").contains(&expected), "{:?}", found.notes);
            let alone = Import { embedding: Part::None, output: Part::None, ..Import::default() };
            let alone = import(&tensors, &alone).unwrap();
            assert!(alone.notes.is_empty(), "{:?}", alone.notes);
            assert_eq!(alone.model.spec().outputs(), None);
            assert_eq!(alone.ignored.len(), 3);
        }
    }
}

#[test]
fn an_output_layer_of_both_directions_and_one_without_bias() {
    let spec = NetSpec::builder(Cell::Lstm).dense(3).units([4]).bidirectional().outputs(2);
    let model = Model::init(&spec.build().unwrap(), 1).unwrap();
    let name = |name: &str| match name.split_once('.') {
        Some((_, kind)) => format!("classifier.{kind}"),
        None => format!("lstm.{name}"),
    };
    let mut tensors = renamed(&model, name);
    same(&import(&tensors, &Import::default()), &model);
    tensors.retain(|(name, ..)| name != "classifier.bias");
    let found = import(&tensors, &Import::default()).unwrap().model;
    assert_eq!(found.spec(), model.spec());
    assert_eq!(found.params()[found.params().len() - 2..], [0.0, 0.0]);
}

#[test]
fn what_may_lie_between_is_not_guessed() {
    let model = whole(Cell::Lstm);
    let name = |name: &str| match name.contains('.') {
        true => name.to_string(),
        false => format!("rnn.{name}"),
    };
    let tensors = with(renamed(&model, name), &[("attention.weight", &[7, 7])]);
    let found = import(&tensors, &Import::default()).unwrap();
    assert_eq!((found.model.spec().outputs(), found.ignored.len()), (None, 4));
    assert_eq!(found.ignored[0], "attention.weight [7, 7]");
    let notes = found.notes.join(" ");
    let expected = "to use them: --embedding-layer embedding, --output-layer output";
    assert!(notes.contains(expected), "{notes}");
    let named = Import {
        embedding: Part::Named("embedding".into()),
        output: Part::Named("output.weight".into()),
        ..Import::default()
    };
    let found = import(&tensors, &named);
    same(&found, &model);
    assert_eq!(found.unwrap().ignored, ["attention.weight [7, 7]"]);

    let refused = |embedding: Part, output: Part| {
        import(&tensors, &Import { embedding, output, ..Import::default() }).err().unwrap()
    };
    let missing = refused(Part::Named("words".into()), Part::None);
    assert!(
        missing.contains("has no matrix `words` or `words.weight` for the embedding"),
        "{missing}"
    );
    let wrong = refused(Part::None, Part::Named("attention".into()));
    let expected = "`attention.weight` has shape [7, 7], expected 4 columns: the output layer";
    assert!(wrong.contains(expected), "{wrong}");
}

#[test]
fn cells_that_compute_something_else_are_refused_by_name() {
    let tensors = renamed(&model(Cell::Lstm, &[4]), |name| cell_name("cell.", name));
    let refused = |more: &[(&str, &[usize])]| {
        import(&with(tensors.clone(), more), &Import::default()).err().unwrap()
    };
    let norm = refused(&[("cell.ln_ih.weight", &[16])]);
    assert!(norm.contains("`cell.ln_ih.weight`: a cell with normalisation inside"), "{norm}");
    let peephole = refused(&[("cell.weight_ci", &[4])]);
    assert!(peephole.contains("`cell.weight_ci`: a cell with peephole connections"), "{peephole}");
    let other = refused(&[("cell.weight_xx", &[4])]);
    assert!(other.contains("unexpected tensor `cell.weight_xx`"), "{other}");
    // A normalisation that follows is no part of the cell.
    let after = with(tensors.clone(), &[("norm.weight", &[4]), ("norm.bias", &[4])]);
    assert_eq!(import(&after, &Import::default()).unwrap().ignored.len(), 2);

    let none = |names: &[(&str, &[usize])]| {
        import(&with(vec![], names), &Import::default()).err().unwrap()
    };
    let normed = none(&[("rnn.weight_ih_l0_v", &[4, 4]), ("rnn.weight_ih_l0_g", &[4, 1])]);
    assert!(normed.contains("remove_weight_norm"), "{normed}");
    let keras = none(&[("lstm/lstm_cell/recurrent_kernel", &[4, 16])]);
    assert!(keras.contains("Keras; convert the model to ONNX"), "{keras}");
    let nothing = none(&[("conv.weight", &[4, 4])]);
    assert!(nothing.contains("it has `conv.weight`"), "{nothing}");
    let turned = none(&[("cell.weight_ih", &[3, 16]), ("cell.weight_hh", &[4, 16])]);
    assert!(turned.contains("[4, 16], fewer rows than columns: it looks transposed"), "{turned}");
}

#[test]
fn numbers_of_64_bits_are_rounded_with_a_note() {
    let model = model(Cell::Lstm, &[4]);
    let doubles: Vec<(String, Vec<usize>, Vec<u8>)> = renamed(&model, str::to_string)
        .into_iter()
        .map(|(name, dims, values)| {
            (name, dims, values.iter().flat_map(|x| f64::from(*x).to_le_bytes()).collect())
        })
        .collect();
    let views = doubles
        .iter()
        .map(|(name, dims, data)| (name, TensorView::new(Dtype::F64, dims.clone(), data).unwrap()));
    let bytes = serialize(views, None).unwrap();
    let found = Imported::from_bytes(&bytes, &Import::default()).map_err(|e| e.to_string());
    same(&found, &model);
    assert_eq!(found.unwrap().notes, ["float64 weights are rounded to float32"]);
}
