//! Tables, CSV or NumPy, with every treatment of missing numbers: complete rows of finite numbers.
//!
//! ```text
//! choices u8    the file
//! ```
#![no_main]

use drnn_tasks::series::{ColumnKind, Cycle, InputColumn, TimeFormat};
use drnn_train::read::{Choice, Delimiter, Missing, Source, table};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&bits, bytes)) = input.split_first() else { return };
    let missing = [Missing::Refuse, Missing::Zero, Missing::Mean, Missing::Previous, Missing::Drop];
    let name = |bit: u8, name: &str| (bits & bit != 0).then(|| name.to_string());
    let choice = Choice {
        columns: (bits & 8 != 0).then(columns),
        label: name(16, "class"),
        sequence: name(32, "id"),
        missing: missing[usize::from(bits & 7) % missing.len()],
        delimiter: if bits & 64 != 0 { Delimiter::Exactly(b';') } else { Delimiter::default() },
        max_labels: 1000,
        ..Choice::default()
    };
    let Ok(source) = Source::from_bytes("f", bytes.to_vec()) else { return };
    let Ok(all) = table(source, &choice) else { return };
    assert!(!all.is_empty() && all.values.iter().all(|x| x.is_finite()));
    assert_eq!(all.values.len(), all.len() * all.columns.len());
    assert_eq!(all.label.is_some(), choice.label.is_some());
    for names in [&all.label, &all.sequence].into_iter().flatten() {
        assert_eq!(names.ids.len(), all.len());
        assert!(names.ids.iter().all(|id| (*id as usize) < names.names.len()));
    }
});

/// A column of every kind.
fn columns() -> Vec<InputColumn> {
    let time = ColumnKind::Time { format: TimeFormat::DayFirst, cycles: Cycle::ALL.to_vec() };
    let category = ColumnKind::Category { names: vec!["a".into(), "b".into()] };
    vec![
        InputColumn::number("x"),
        InputColumn { name: "t".into(), kind: time },
        InputColumn { name: "c".into(), kind: category },
    ]
}
