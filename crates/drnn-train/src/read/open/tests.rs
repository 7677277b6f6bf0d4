use super::*;
use std::io::Write;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    to.write_all(bytes).unwrap();
    to.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

fn zip(files: &[(&str, &[u8])], method: rawzip::CompressionMethod) -> Vec<u8> {
    let mut archive = rawzip::ZipArchiveWriter::new(Vec::new());
    for (name, bytes) in files {
        if name.ends_with('/') {
            archive.new_dir(name).create().unwrap();
            continue;
        }
        let (mut entry, config) =
            archive.new_file(name).compression_method(method).start().unwrap();
        let descriptor = if method == rawzip::CompressionMethod::DEFLATE {
            let to = flate2::write::DeflateEncoder::new(&mut entry, Default::default());
            let mut to = config.wrap(to);
            to.write_all(bytes).unwrap();
            let (to, descriptor) = to.finish().unwrap();
            to.finish().unwrap();
            descriptor
        } else {
            let mut to = config.wrap(&mut entry);
            to.write_all(bytes).unwrap();
            to.finish().unwrap().1
        };
        entry.finish(descriptor).unwrap();
    }
    archive.finish().unwrap()
}

const STORE: rawzip::CompressionMethod = rawzip::CompressionMethod::STORE;
const DEFLATE: rawzip::CompressionMethod = rawzip::CompressionMethod::DEFLATE;

fn all(name: &str, bytes: &[u8]) -> Result<Vec<u8>> {
    let mut source = Source::from_bytes(name, bytes.to_vec())?;
    let mut to = Vec::new();
    source.read_to_end(&mut to).map_err(|e| broken(name, e))?;
    Ok(to)
}

fn text() -> Vec<u8> {
    (0..40_000u32).flat_map(|i| format!("{} ", i.wrapping_mul(i) % 977).into_bytes()).collect()
}

#[test]
fn all_packings_give_the_same() {
    let text = text();
    let mut skipped = vec![0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    skipped.extend(zstd(&text));
    let (head, tail) = text.split_at(70_000);
    let with_mark = [b"\xef\xbb\xbf", &text[..]].concat();
    for packed in [
        text.clone(),
        with_mark.clone(),
        gzip(&text),
        gzip(&with_mark),
        [gzip(head), gzip(tail)].concat(),
        zstd(&text),
        skipped,
        [zstd(head), zstd(tail)].concat(),
        zip(&[("any", &text)], DEFLATE),
        zip(&[("folder/", b""), ("folder/any", &text)], STORE),
        zip(&[("b.txt", b"no"), ("folder/a.txt", &text)], DEFLATE),
        zip(&[("b.txt", b"no"), ("a", &text)], DEFLATE),
    ] {
        assert!(all("a.zip", &packed).unwrap() == text);
    }
    for empty in [vec![], gzip(b""), zstd(b""), zip(&[("a", b"")], STORE)] {
        assert_eq!(all("a", &empty).unwrap(), b"");
    }
}

#[test]
fn what_is_cut_off_or_damaged_is_refused() {
    let text = text();
    for (kind, packed) in [
        ("gzip", gzip(&text)),
        ("zstd", zstd(&text)),
        ("zip", zip(&[("a", &text)], DEFLATE)),
        ("zip", zip(&[("a", &text)], STORE)),
    ] {
        assert!(all("a", &packed).is_ok());
        for cut in (4..packed.len()).rev().step_by(997).chain(packed.len() - 20..packed.len()) {
            let message = all("a", &packed[..cut]).unwrap_err().to_string();
            assert!(message.contains(kind) && message.contains("again"), "{kind} {cut} {message}");
        }
        for at in (60..packed.len() - 300).step_by(1009) {
            let mut damaged = packed.clone();
            damaged[at] ^= 0x10;
            assert!(all("a", &damaged).is_err(), "{kind} {at}");
        }
    }
    assert!(all("a", &[gzip(&text), b"what is this".to_vec()].concat()).is_err());
    assert!(all("a", &[zstd(&text), b"what is this".to_vec()].concat()).is_err());
}

#[test]
fn archives_that_leave_a_question() {
    let message = |packed: Vec<u8>| all("a.zip", &packed).unwrap_err().to_string();
    let two = message(zip(&[("b", b"1"), ("c\x1b", b"2")], STORE));
    assert_eq!(
        two,
        "a.zip: holds 2 files (`b`, `c\\u{1b}`); expected one, or one named like the archive. Unpack it and name one"
    );
    assert!(message(zip(&[("a.txt", b"1"), ("a.csv", b"2")], STORE)).contains("holds 2 files"));
    assert!(message(zip(&[("b/", b"")], STORE)).contains("without a file"));
    let odd = zip(&[("b", b"1")], rawzip::CompressionMethod::new(97));
    assert!(message(odd).contains("expected deflate"));
    assert!(message(b"BZh91AY&SY".to_vec()).contains("bzip2"));
    let stream = Cursor::new(zip(&[("b", b"1")], STORE));
    assert!(Source::new("a", stream).unwrap_err().to_string().contains("from a stream"));
}

#[test]
fn files_by_path() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in [("a.txt", gzip(b"x")), ("a.gz", zip(&[("b", b"x")], DEFLATE))] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let mut text = String::new();
        open(&path).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
    }
    let message = open(&folder.path().join("no\nne")).unwrap_err().to_string();
    assert!(message.contains("no\\nne: cannot be read: "), "{message}");
    assert!(open(folder.path()).is_err());
}
