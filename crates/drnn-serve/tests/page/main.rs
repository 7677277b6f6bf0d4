//! The page in a real browser. Without one, these tests are skipped.
#![cfg(unix)]

mod browser;
mod files;
mod models;

use browser::{Browser, text};
use drnn_serve::{Options, Token};
use drnn_tasks::live::{LiveStream, Predicted};
use drnn_tasks::tagger::tokenize;
use models::{ALPHABET, Served, model};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

const LETTERS: [&str; 3] = ["letters-0", "letters-3", "letters-both"];

/// A page of these models, ready to be typed at.
fn page(names: &[&str], options: Options) -> Option<(Browser, Served)> {
    let mut browser = Browser::start()?;
    let served = Served::start(names, options);
    browser.open(&served.url());
    browser.until("document.querySelector('.lane')");
    browser.until("[...document.querySelectorAll('.lane')].every(lane => lane.dataset.delay === 'end' || lane.dataset.state === 'live')");
    browser.eval("document.getElementById('text').focus()");
    Some((browser, served))
}

fn lane(name: &str) -> String {
    format!("document.querySelector('[data-model=\"{name}\"]')")
}

/// Waits until a lane shows so many answers, and a band of so many that wait.
fn shows(browser: &mut Browser, name: &str, answered: usize, waiting: usize) {
    let lane = lane(name);
    browser.until(&format!(
        "{lane}.dataset.answered == {answered} && {lane}.dataset.waiting == {waiting}"
    ));
    let slots = browser.eval(&format!("{lane}.querySelectorAll('.tape .waiting').length"));
    assert_eq!(slots, waiting, "{name}: slots of the band");
}

/// Signs of a lane that no longer wait.
fn signs(browser: &mut Browser, name: &str) -> String {
    let cells = format!("{}.querySelectorAll('.tape .cell:not(.waiting) .sign')", lane(name));
    let found = browser.eval(&format!("[...{cells}].map(sign => sign.textContent).join('')"));
    text(&found).replace(['\u{a0}', '\u{2423}'], " ")
}

fn all(browser: &mut Browser, selector: &str) -> Vec<String> {
    let found = browser.eval(&format!(
        "[...document.querySelectorAll({})].map(node => node.textContent)",
        json!(selector)
    ));
    found.as_array().unwrap().iter().map(text).collect()
}

fn chosen(browser: &mut Browser, task: usize) {
    browser.eval(&format!("document.querySelectorAll('#tasks input')[{task}].click()"));
    browser.eval("document.getElementById('text').focus()");
}

/// The text is another, as after an edit.
fn set(browser: &mut Browser, typed: &str) {
    browser.eval(&format!("text.value = {}; text.dispatchEvent(new Event('input'))", json!(typed)));
}

/// What a model in this process predicts for a text.
fn filled(name: &str, typed: &str) -> String {
    let model = model(name);
    let mut stream = LiveStream::new(&model).unwrap();
    let mut answers = Vec::new();
    for c in typed.chars() {
        answers.extend(stream.push(&model.line(&c.to_string()).unwrap()).unwrap());
    }
    answers.extend(stream.flush().unwrap());
    let letter = |answer: drnn_tasks::live::Prediction| match answer.value {
        Predicted::Character { character, .. } => character,
        _ => '?',
    };
    answers.into_iter().map(letter).collect()
}

#[test]
fn letters_are_predicted_d_late_and_the_rest_at_the_end() {
    let Some((mut browser, _served)) = page(&LETTERS, Options::default()) else { return };
    assert_eq!(all(&mut browser, ".lane h3 .name"), LETTERS, "those that wait least first");
    let typed = "ab_ c_de _bc a_";
    let mut before = String::new();
    for (at, c) in typed.chars().enumerate() {
        browser.write(&c.to_string());
        let sent = at + 1;
        shows(&mut browser, "letters-0", sent, 0);
        shows(&mut browser, "letters-3", sent.saturating_sub(3), sent.min(3));
        shows(&mut browser, "letters-both", 0, sent);
        let now = signs(&mut browser, "letters-3");
        assert!(now.starts_with(&before), "an answer changed: {before:?}, {now:?}");
        before = now;
    }
    browser.press("Enter");
    let n = typed.chars().count();
    for name in LETTERS {
        shows(&mut browser, name, n, 0);
        let found = signs(&mut browser, name);
        for (found, typed) in found.chars().zip(typed.chars()) {
            assert!(if typed == '_' { ALPHABET.contains(found) } else { found == typed });
        }
        if name != "letters-both" {
            assert_eq!(found, filled(name, typed), "{name}");
        }
    }
    let masked = [2, 5, 9, 14];
    for (name, most) in [("letters-0", 0), ("letters-3", 3), ("letters-both", usize::MAX)] {
        let late: Vec<String> = masked.iter().map(|at| most.min(n - 1 - at).to_string()).collect();
        assert_eq!(all(&mut browser, &format!("[data-model={name}] .tape .late")), late, "{name}");
    }
    // More text: what was ended is not; what was edited begins anew.
    browser.write("b");
    shows(&mut browser, "letters-3", n - 2, 3);
    shows(&mut browser, "letters-both", 0, n + 1);
    set(&mut browser, "ba");
    shows(&mut browser, "letters-0", 2, 0);
    shows(&mut browser, "letters-3", 0, 2);
    browser.press("Enter");
    shows(&mut browser, "letters-3", 2, 0);
    assert_eq!(signs(&mut browser, "letters-3"), "ba");
    let sockets = browser.requests.iter().filter(|url| url.starts_with("ws:")).count();
    assert_eq!(sockets, 2, "all on one connection each");
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
fn a_played_text_makes_no_requests_to_other_servers() {
    let names = [LETTERS.as_slice(), &["tags"]].concat();
    let Some((mut browser, served)) = page(&names, Options::default()) else { return };
    browser.eval("speed.value = 60; document.getElementById('play').click()");
    browser.until(&format!("{}.dataset.waiting > 9", lane("letters-both")));
    browser.until(&format!("{}.dataset.answered > 9", lane("letters-3")));
    browser.until("document.getElementById('play').textContent === 'Play'");
    let n = browser.eval("text.value.length").as_u64().unwrap() as usize;
    LETTERS.iter().for_each(|name| shows(&mut browser, name, n, 0));
    let right = all(&mut browser, ".lane dl div:last-child dd");
    assert!(right.iter().all(|right| right.ends_with(" of 8")), "{right:?}");
    set(&mut browser, &"abcde ".repeat(60));
    browser.eval("mask.click()");
    LETTERS.iter().for_each(|name| shows(&mut browser, name, 360, 0));
    let masks = browser.eval("text.value.split('_').length - 1").as_u64().unwrap();
    assert!((30..90).contains(&masks), "{masks} of 300 are masked");
    let right = all(&mut browser, ".lane dl div:last-child dd");
    assert!(right.iter().all(|right| right.ends_with(&format!(" of {masks}"))), "{right:?}");
    // Much text does not become much of a page.
    set(&mut browser, &"ab_ ".repeat(2000));
    shows(&mut browser, "letters-3", 7_997, 3);
    let cells = browser.eval("document.querySelectorAll('.lane .cell').length").as_u64().unwrap();
    assert!(cells < 2600, "{cells} cells");
    chosen(&mut browser, 1);
    browser.until(&format!("{}.dataset.state === 'live'", lane("tags")));
    let own = [served.url(), served.url().replace("http:", "ws:")];
    assert!(browser.requests.len() > 20, "{:?}", browser.requests);
    let others =
        |url: &&String| !own.iter().any(|own| url.starts_with(own)) && *url != "about:blank";
    assert_eq!(browser.requests.iter().find(others), None);
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
fn words_are_those_of_the_program_and_get_their_tags() {
    let Some((mut browser, _served)) = page(&["tags"], Options::default()) else { return };
    browser.write("Don't stop");
    shows(&mut browser, "tags", 1, 1);
    browser.write(" the boats ");
    shows(&mut browser, "tags", 4, 1);
    assert_eq!(all(&mut browser, ".tape .sign"), ["Do", "n't", "stop", "the", "boats"]);
    browser.eval("document.getElementById('end').click()");
    shows(&mut browser, "tags", 5, 0);
    let tags = all(&mut browser, ".tape .tag");
    assert_eq!(tags, ["AUX+1", "PART+1", "VERB+1", "DET+1", "NOUN+0"]);

    let mut rng = drnn::random::Rng::new(1);
    let signs: Vec<char> =
        "ab'\u{2019}n t.,-/(\"!\u{130}\u{df}$5@_<\u{3000}\u{1f600}\u{feff}".chars().collect();
    let mut lines: Vec<String> = (0..4000)
        .map(|_| (0..rng.below(14)).map(|_| signs[rng.below(signs.len())]).collect())
        .collect();
    lines.extend(
        ["We've met Dr. Who... cannot", "U.S. and/or http://a.b/c, 'em -5 's ...n't"]
            .map(String::from),
    );
    let script =
        format!("import('/page/words.js').then(words => {}.map(words.tokenize))", json!(lines));
    let found = browser.eval(&script);
    for (line, found) in lines.iter().zip(found.as_array().unwrap()) {
        assert_eq!(*found, json!(tokenize(line)), "{line:?}");
    }
}

#[test]
fn markup_is_text() {
    let names = ["letters-3", "letters-both", "tags"];
    let Some((mut browser, _served)) = page(&names, Options::default()) else { return };
    let typed = "<img src=x onerror=hurt()><b>_</b>";
    browser.write(typed);
    browser.press("Enter");
    let n = typed.chars().count();
    shows(&mut browser, "letters-3", n, 0);
    shows(&mut browser, "letters-both", n, 0);
    assert!(signs(&mut browser, "letters-3").starts_with("<img src=x onerror=hurt()><b>"));
    chosen(&mut browser, 1);
    browser.write("<script>hurt()</script> <b>bold</b> ");
    browser.press("Enter");
    browser.until(&format!("{0}.dataset.answered > 5 && {0}.dataset.waiting == 0", lane("tags")));
    assert!(signs(&mut browser, "tags").contains("<script>hurt()<"));
    assert_eq!(
        browser.eval("document.querySelectorAll('.tape img, .tape b, .tape script').length"),
        0
    );
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
fn rows_of_numbers_and_what_is_refused() {
    let Some((mut browser, _served)) = page(&["rows"], Options::default()) else { return };
    browser.write("0.5, 1\n0.25 0\n1, 1\n");
    shows(&mut browser, "rows", 1, 2);
    let refused = "document.querySelector('.lane[data-state=refused] .state')";
    browser.write("1, 2, 3\n0, 0\n");
    browser.until(refused);
    let why = text(&browser.eval(&format!("{refused}.textContent")));
    assert!(why.contains("3 numbers, expected 2"), "{why}");
    shows(&mut browser, "rows", 1, 2);
    browser.eval("text.value = text.value.replace('1, 2, 3', '1, 2'); text.dispatchEvent(new Event('input'))");
    shows(&mut browser, "rows", 3, 2);
    browser.eval("document.getElementById('end').click()");
    shows(&mut browser, "rows", 5, 0);
    assert_eq!(all(&mut browser, ".tape .late"), ["+2", "+2", "+2", "+1", "+0"]);
    assert_eq!(browser.errors, [""; 0]);
}

/// Text whose contrast with its background is below 4.5, and elements beyond the right edge.
const FAULTS: &str = r#"(() => {
  const parts = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const background = (node) => { for (; node; node = node.parentElement) {
    const c = parts(getComputedStyle(node).backgroundColor); if (c.length === 3 || c[3] > 0) return c; } return [255, 255, 255]; };
  const faults = [];
  for (const node of document.querySelectorAll('main *')) {
    const box = node.getBoundingClientRect();
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!own || !box.width || node.closest('.unseen, .skip, :disabled, svg')) continue;
    const [a, b] = [light(parts(getComputedStyle(node).color)), light(background(node.matches('.letter .late') ? node.closest('.letter').parentElement : node))].sort((a, b) => b - a);
    if ((a + 0.05) / (b + 0.05) < 4.5) faults.push(`${node.outerHTML}: contrast ${((a + 0.05) / (b + 0.05)).toFixed(2)}`);
    if (box.right > innerWidth + 1) faults.push(`${node.outerHTML}: ends at ${box.right}`);
  }
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) faults.push(`the page is ${wide} wide`);
  return faults;
})()"#;

#[test]
fn it_can_be_read_on_a_phone_by_day_and_by_night() {
    let sweep = include_str!("../../../../results/sweep-reversal/sweep.json");
    let mut options = Options::default();
    options.sweep = Some(sweep.into());
    let names = [LETTERS.as_slice(), &["tags", "rows"]].concat();
    let Some((mut browser, _served)) = page(&names, options) else { return };
    browser.until("document.querySelector('#plot svg')");
    let mut papers = Vec::new();
    for (width, scheme) in [(1200, "light"), (1200, "dark"), (320, "light"), (320, "dark")] {
        browser.look(width, scheme);
        papers.push(browser.eval("getComputedStyle(document.body).backgroundColor"));
        for (task, typed) in
            ["ab_de ab_ and some more of it", "The old man the boat ", "1, 2\n3, 4\n5, 6\n7, 8\n"]
                .into_iter()
                .enumerate()
        {
            chosen(&mut browser, task);
            browser.write(typed);
            browser
                .until("document.querySelector('.answered') && document.querySelector('.waiting')");
            assert_eq!(browser.eval(FAULTS), json!([]), "{width} {scheme}, task {task}");
        }
        let plot =
            browser.eval("document.querySelector('#plot svg').getBoundingClientRect().right");
        assert!(plot.as_f64().unwrap() <= width.into());
    }
    assert!(papers[0] != papers[1] && papers[1] == papers[3], "{papers:?}");
    let points = browser.eval("document.querySelectorAll('#plot .point').length");
    assert_eq!(points, 6);
    let words = text(&browser.eval("document.querySelector('#plot p').textContent"));
    assert!(words.contains("a delay of 19 is enough"), "{words}");
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
fn without_a_sweep_it_says_how_to_get_one() {
    let Some((mut browser, _served)) = page(&["letters-0"], Options::default()) else { return };
    browser.until("document.getElementById('plot').textContent.includes('drnn serve --sweep')");
}

#[test]
fn the_keyboard_is_enough() {
    let names = [LETTERS.as_slice(), &["tags"]].concat();
    let Some((mut browser, served)) = page(&names, Options::default()) else { return };
    browser.open(&served.url()); // with the focus nowhere
    browser.until("document.querySelector('.lane')");
    browser.eval("speed.value = 60");
    let focus = "(document.activeElement.id || document.activeElement.name || document.activeElement.value || document.activeElement.className)";
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| last != "play") {
        browser.press("Tab");
        seen.push(text(&browser.eval(focus)));
        let visible = browser.eval("document.activeElement.matches(':focus-visible')");
        assert_eq!(visible, true, "{seen:?}");
        assert!(seen.len() < 30, "{seen:?}");
    }
    assert!(seen.contains(&"text".into()) && seen.contains(&"task".into()), "{seen:?}");
    browser.press("Enter");
    browser.until(&format!("{}.dataset.answered > 9", lane("letters-3")));
    browser.press("Enter");
    assert_eq!(browser.eval("document.getElementById('play').textContent"), "Play");
    browser.until(&format!("{}.dataset.waiting == 0", lane("letters-0")));
    while seen.iter().filter(|seen| seen.starts_with("tape")).count() < LETTERS.len() {
        browser.press("Tab");
        seen.push(text(&browser.eval(focus)));
        assert!(seen.len() < 60, "{seen:?}");
    }
    browser.eval(&format!("{}.querySelector('.tape').focus()", lane("letters-0")));
    browser.press("Home");
    browser.press("ArrowRight");
    let hint = text(&browser.eval("document.getElementById('hint').innerText"));
    let said = browser.eval("document.getElementById('said').textContent");
    assert!(hint.contains('%') && hint.contains("at once"), "{hint:?}");
    assert!(text(&said).contains('%'), "{said}");
}

#[test]
fn a_token_is_requested_and_kept_in_the_tab() {
    let Some(mut browser) = Browser::start() else { return };
    let token = "0123456789abcdef!'~";
    let mut options = Options::default();
    options.token = Some(Token::new(token).unwrap());
    let served = Served::start(&["letters-0", "letters-both"], options);
    browser.open(&served.url());
    browser.until("!document.getElementById('token').hidden");
    for given in ["wrong-wrong-wrong-wrong", token] {
        browser.until("document.activeElement.id === 'token-text'");
        browser.write(given);
        browser.press("Enter");
        if given != token {
            browser.until("document.getElementById('token-wrong').textContent");
        }
    }
    browser.until(&format!("{}?.dataset.state === 'live'", lane("letters-0")));
    assert_eq!(browser.eval("document.getElementById('token').hidden"), true);
    browser.eval("document.getElementById('text').focus()");
    browser.write("ab_");
    browser.press("Enter");
    shows(&mut browser, "letters-0", 3, 0);
    shows(&mut browser, "letters-both", 3, 0);
    assert_eq!(browser.eval("localStorage.length + document.cookie.length"), 0);
    browser.open(&served.url());
    browser.until(&format!("{}?.dataset.state === 'live'", lane("letters-0")));
}

#[test]
fn a_lost_connection_is_shown_and_nothing_is_lost_with_it() {
    let Some((mut browser, mut served)) = page(&["letters-3", "letters-both"], Options::default())
    else {
        return;
    };
    browser.write("ab_de");
    shows(&mut browser, "letters-3", 2, 3);
    let listen = served.address;
    served.stop();
    browser.until(&format!("{}.dataset.state === 'lost'", lane("letters-3")));
    let state =
        text(&browser.eval(&format!("{}.querySelector('.state').textContent", lane("letters-3"))));
    assert!(state.contains("next attempt") && state.contains("Your text is kept"), "{state}");
    browser.write(" and_more");
    browser.press("Enter");
    browser.until(&format!("{}.dataset.state === 'lost'", lane("letters-both")));
    let mut options = Options::default();
    options.listen = listen;
    let _again = Served::start(&["letters-3", "letters-both"], options);
    shows(&mut browser, "letters-3", 14, 0);
    shows(&mut browser, "letters-both", 14, 0);
    assert_eq!(signs(&mut browser, "letters-3"), filled("letters-3", "ab_de and_more"));
}

#[test]
fn a_stream_that_was_idle_wakes() {
    let mut options = Options::default();
    options.limits.idle = Duration::from_millis(300);
    let Some((mut browser, _served)) = page(&["letters-3"], options) else { return };
    for (typed, answered) in [("abc_", 1), ("d", 2), (" a", 4)] {
        browser.until(&format!("{}.dataset.state === 'asleep'", lane("letters-3")));
        browser.write(typed);
        shows(&mut browser, "letters-3", answered, 3);
    }
}

/// Values are drawn as curves too, one for each target.
/// Rows of an example lie where the model's training data did: mean 20, standard deviation 5.
#[test]
fn example_rows_lie_within_the_data() {
    let Some((mut browser, _served)) = page(&["values"], Options::default()) else { return };
    browser.eval("speed.value = speed.max; document.getElementById('play').click()");
    browser.until("document.getElementById('play').textContent === 'Play'");
    let rows = text(&browser.eval("text.value"));
    let x: Vec<f64> = rows.lines().map(|line| line.trim().parse().unwrap()).collect();
    assert_eq!(x.len(), 24);
    assert!(x.iter().all(|x| (15.0..=25.0).contains(x)), "{x:?}");
    let spread = x.iter().fold(0.0, |far: f64, x| far.max((x - 20.0).abs()));
    assert!(spread > 4.0, "{x:?}");
}

#[test]
fn values_have_curves() {
    let Some((mut browser, _served)) = page(&["values"], Options::default()) else { return };
    let curve = format!("{}.querySelector('.curve')", lane("values"));
    assert_eq!(browser.eval(&format!("{curve}.hidden")), true);
    set(&mut browser, "18\n22\n31\n");
    shows(&mut browser, "values", 3, 0);
    let points =
        format!("[...{curve}.querySelectorAll('polyline')].map(line => line.points.numberOfItems)");
    assert_eq!(browser.eval(&points), json!([3, 3]));
    let caption = text(&browser.eval(&format!("{curve}.querySelector('figcaption').textContent")));
    assert!(caption.starts_with("predictions 1 to 3: warm ") && caption.contains("; cold "));
    set(&mut browser, "18\n");
    shows(&mut browser, "values", 1, 0);
    assert_eq!(browser.eval(&format!("{curve}.hidden")), true);
    assert_eq!(browser.errors, [""; 0]);
}

/// The response time is that of this text, in milliseconds; the delay is in letters.
#[test]
fn delay_and_response_time_are_apart() {
    let Some((mut browser, _served)) = page(&LETTERS, Options::default()) else { return };
    let wait = |name: &str| format!("[data-model={name}] .wait");
    assert_eq!(all(&mut browser, &wait("letters-3")), ["predicts 3 letters late"]);
    assert_eq!(all(&mut browser, &wait("letters-both")), ["waits for the end"]);
    browser.write("ab_d");
    browser.press("Enter");
    shows(&mut browser, "letters-both", 4, 0);
    let facts = "[data-model=letters-both] dd";
    assert!(all(&mut browser, facts)[1].ends_with('s'));
    browser.write("c");
    shows(&mut browser, "letters-both", 0, 5);
    assert_eq!(all(&mut browser, facts)[1], "\u{2013}");
}

/// The picture in the README: `cargo test --release -p drnn-serve --test page -- --ignored picture`. Its models are
/// those that come with the program, or of the folder that `DRNN_MODELS` names.
#[test]
#[ignore = "writes docs/page.png"]
fn picture() {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let folder =
        std::env::var_os("DRNN_MODELS").map_or(root.join("crates/drnn-cli/models"), PathBuf::from);
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|end| end == "safetensors"));
    let models = files.map(|path| drnn_tasks::live::LiveModel::load(&path).unwrap());
    let Some(mut browser) = Browser::start() else { return };
    let served = Served::with(models, Options::default());
    browser.look(1100, "light");
    browser.open(&served.url());
    browser.until("document.querySelector('.lane')");
    for typed in 1..=50 {
        browser.eval("document.getElementById('step').click()");
        browser.until(&format!("document.querySelector('.lane:last-child').dataset.waiting == {typed} || document.querySelector('.lane').dataset.answered > 40"));
    }
    std::thread::sleep(Duration::from_millis(300));
    let ends = browser.eval("document.querySelector('.legend ul').getBoundingClientRect().bottom");
    let height = (ends.as_f64().unwrap() + 10.0).ceil();
    browser.picture(height, &root.join("docs/page.png"));
}
