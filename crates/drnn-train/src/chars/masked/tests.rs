use super::*;
use crate::data::{Inputs, TargetData};
use crate::read;
use drnn::{Cell, Padding};
use drnn_tasks::chars::Alphabet;

const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";
const MASK: u32 = 26;

/// `count` letters in a row that does not repeat soon, and `?`, which the alphabet does not have, at `unknown`.
fn text(count: usize, unknown: Option<usize>) -> Arc<Symbols> {
    let letter = |i: usize| if Some(i) == unknown { b'?' } else { b'a' + (i * i % 23) as u8 };
    let alphabet = Alphabet::new(LETTERS.chars().collect()).unwrap();
    let source = read::Source::from_bytes("text", (0..count).map(letter).collect()).unwrap();
    Arc::new(Symbols::read(source, &alphabet).unwrap())
}

fn masked(text: &Arc<Symbols>, range: Range<usize>, window: usize, share: f64) -> Masked {
    let masking = Masking { window, share, mask: MASK, seed: 9 };
    Masked::new("text", text.clone(), range, masking).unwrap()
}

/// Tokens, slots and targets of some windows.
fn gathered(masked: &Masked, epoch: usize, ahead: usize, chosen: &[u32]) -> [Vec<u32>; 3] {
    let mut to = Gathered { look_ahead: ahead, ..Gathered::default() };
    masked.gather(epoch, chosen, &mut to);
    let Inputs::Tokens(tokens) = to.inputs else { panic!() };
    let TargetData::Classes(classes) = to.targets else { panic!() };
    [tokens, to.selected.unwrap(), classes]
}

fn letter(i: usize) -> u32 {
    (i * i % 23) as u32
}

#[test]
fn a_fifth_is_masked_and_only_that_is_predicted() {
    let text = text(100_000, None);
    let masked = masked(&text, 0..100_000, 180, 0.2);
    assert_eq!(masked.len(), 555);
    let chosen: Vec<u32> = (0..555).collect();
    let [tokens, selected, classes] = gathered(&masked, 3, 8, &chosen);
    assert_eq!((tokens.len(), selected.len()), (188 * 555, classes.len()));
    let share = |of: &[u32]| of.iter().filter(|t| **t == MASK).count() as f64 / of.len() as f64;
    let (inside, ahead) = tokens.split_at(180 * 555);
    assert!((share(inside) - 0.2).abs() < 0.01, "{}", share(inside));
    assert!((share(ahead) - 0.2).abs() < 0.02, "{}", share(ahead));
    assert!(selected.windows(2).all(|two| two[0] < two[1]));
    let masks = (0..180 * 555).filter(|&slot| tokens[slot as usize] == MASK);
    assert!(masks.eq(selected.iter().copied()));
    for (slot, class) in selected.iter().zip(&classes) {
        let (step, row) = (*slot as usize / 555, *slot as usize % 555);
        assert_eq!(*class, letter(row * 180 + step));
    }
}

#[test]
fn masks_follow_from_visit_and_window_alone() {
    let text = text(5000, None);
    let masked = masked(&text, 500..4000, 100, 0.2);
    let alone = gathered(&masked, 1, 0, &[7])[0].clone();
    let [both, ..] = gathered(&masked, 1, 0, &[7, 8]);
    assert!(both.iter().step_by(2).eq(&alone));
    assert!(!both.iter().skip(1).step_by(2).eq(&alone));
    assert_ne!(gathered(&masked, 2, 0, &[7])[0], alone);
    assert_eq!(gathered(&masked, 1, 0, &[7])[0], alone);
    // With any look-ahead.
    assert_eq!(gathered(&masked, 1, 30, &[7])[0][..100], alone);
    assert_eq!(gathered(&masked, 1, 30, &[7])[1..], gathered(&masked, 1, 0, &[7])[1..]);
}

#[test]
fn what_is_looked_ahead_at_is_the_text_that_follows() {
    let text = text(1000, None);
    let masked = masked(&text, 100..650, 100, 1e-9); // as good as never
    let [tokens, selected, classes] = gathered(&masked, 0, 20, &[0, 4]);
    assert!(selected.is_empty() && classes.is_empty());
    for step in 0..120 {
        assert_eq!(tokens[2 * step..][..2], [letter(100 + step), letter(500 + step)]);
    }
    // After the end of its part a window sees nothing.
    let [tokens, ..] = gathered(&masked, 0, 60, &[4]);
    assert_eq!((tokens[149], &tokens[150..]), (letter(649), &[MASK; 10][..]));
}

#[test]
fn characters_that_the_alphabet_lacks_are_read_as_masks_and_not_predicted() {
    let text = text(300, Some(5));
    let all = gathered(&masked(&text, 0..300, 100, 1.0), 0, 0, &[0]);
    assert_eq!(all[1].len(), 99);
    assert!(!all[1].contains(&5) && !all[2].contains(&MASK));
    let none = gathered(&masked(&text, 0..300, 100, 1e-9), 0, 0, &[0]);
    assert_eq!((none[0][5], none[1].len()), (MASK, 0));
}

#[test]
fn what_does_not_fit_is_refused() {
    let text = text(1000, None);
    let refused = |range: Range<usize>, window, share| {
        let masking = Masking { window, share, mask: MASK, seed: 9 };
        Masked::new("my text", text.clone(), range, masking).unwrap_err().to_string()
    };
    let short = refused(0..99, 100, 0.2);
    assert!(short.starts_with("my text: 99 characters, fewer than a window of 100"), "{short}");
    assert!(refused(0..0, 0, 0.2).contains("fewer than a window of 0"));
    assert!(refused(0..1001, 100, 0.2).contains("0..1001 of a text of 1000"));
    for share in [0.0, -1.0, 1.1, f64::NAN] {
        assert!(refused(0..900, 100, share).contains("masked (--mask); expected above 0"));
    }
    let masked = masked(&text, 0..1000, 100, 0.2);
    let lstm = || NetSpec::builder(Cell::Lstm).units([5]).delay(3, Padding::LookAhead);
    assert!(masked.fits(&lstm().tokens(27, 10).outputs(26).build().unwrap()).is_ok());
    for wrong in
        [lstm().tokens(26, 10).outputs(26), lstm().tokens(27, 10).outputs(27), lstm().dense(27)]
    {
        let error = masked.fits(&wrong.build().unwrap()).unwrap_err().to_string();
        assert!(error.contains("expected 27 symbols in, 26 out"), "{error}");
    }
}
