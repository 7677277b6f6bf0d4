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
    for compressed in [
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
        assert!(all("a.zip", &compressed).unwrap() == text);
    }
    for empty in [vec![], gzip(b""), zstd(b""), zip(&[("a", b"")], STORE)] {
        assert_eq!(all("a", &empty).unwrap(), b"");
    }
}

#[test]
fn what_is_cut_off_or_damaged_is_refused() {
    let text = text();
    for (kind, compressed) in [
        ("gzip", gzip(&text)),
        ("zstd", zstd(&text)),
        ("zip", zip(&[("a", &text)], DEFLATE)),
        ("zip", zip(&[("a", &text)], STORE)),
    ] {
        assert!(all("a", &compressed).is_ok());
        for cut in
            (4..compressed.len()).rev().step_by(997).chain(compressed.len() - 20..compressed.len())
        {
            let message = all("a", &compressed[..cut]).unwrap_err().to_string();
            assert!(message.contains(kind) && message.contains("again"), "{kind} {cut} {message}");
        }
        for at in (60..compressed.len() - 300).step_by(1009) {
            let mut damaged = compressed.clone();
            damaged[at] ^= 0x10;
            assert!(all("a", &damaged).is_err(), "{kind} {at}");
        }
    }
    assert!(all("a", &[gzip(&text), b"what is this".to_vec()].concat()).is_err());
    assert!(all("a", &[zstd(&text), b"what is this".to_vec()].concat()).is_err());
}

#[test]
fn archives_that_leave_a_question() {
    let message = |compressed: Vec<u8>| all("a.zip", &compressed).unwrap_err().to_string();
    let two = message(zip(&[("b", b"1"), ("c\x1b", b"2")], STORE));
    assert_eq!(
        two,
        "a.zip: holds 2 files (`b`, `c\\u{1b}`); expected one, or one named like the archive. Extract it and name one"
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

/// Compressed data that expand to `megabytes` of spaces.
fn bombs(megabytes: usize) -> Vec<(&'static str, Vec<u8>)> {
    let spaces = vec![b' '; megabytes << 20];
    let zip = zip(&[("a", &spaces)], DEFLATE);
    vec![("gzip", gzip(&spaces)), ("zstd", zstd(&spaces)), ("zip", zip)]
}

fn length(source: Result<Source>) -> Result<u64> {
    let mut source = source?;
    let name = source.name().to_string();
    io::copy(&mut source, &mut io::sink()).map_err(|e| broken(&name, e))
}

#[test]
fn compressed_data_that_expand_too_much_are_stopped() {
    for (compression, bytes) in bombs(40) {
        let message = length(Source::from_bytes("a", bytes.clone())).unwrap_err().to_string();
        assert!(message.contains(&format!("bytes of {compression} data expand")), "{message}");
        assert!(message.contains("--max-input SIZE"), "{message}");
        // Who says how much may do so.
        let limits = |max_input| ReadLimits { max_input: Some(max_input) };
        let open = |max_input| Source::held("a", bytes.clone().into(), limits(max_input));
        assert_eq!(length(open(40 << 20)).unwrap(), 40 << 20, "{compression}");
        let message = length(open((40 << 20) - 1)).unwrap_err().to_string();
        assert!(message.contains("it has more than 41943039 bytes"), "{message}");
    }
    // Small ones may be as dense as they like, and large ones as dense as tables are.
    for (compression, bytes) in bombs(7) {
        assert_eq!(length(Source::from_bytes("a", bytes)).unwrap(), 7 << 20, "{compression}");
    }
    let rows: String = (0..2_000_000).map(|i| format!("{},{}\n", i % 97, i % 89)).collect();
    assert_eq!(length(Source::from_bytes("a", gzip(rows.as_bytes()))).unwrap(), rows.len() as u64);
}

#[test]
fn a_stream_has_a_limit_and_what_is_no_file_is_refused() {
    let many = io::repeat(b' ').take(1 << 20);
    let source = Source::new("a", BufReader::new(many)).unwrap();
    assert_eq!(length(Ok(Source { max: 1 << 20, ..source })).unwrap(), 1 << 20);
    let source = Source::new("a", BufReader::new(io::repeat(b' '))).unwrap();
    let message = length(Ok(Source { max: 1 << 20, ..source })).unwrap_err().to_string();
    assert!(message.contains("it has more than 1048576 bytes"), "{message}");
    let message = open(Path::new("/")).unwrap_err().to_string();
    assert!(message.contains("cannot be read: it is a folder"), "{message}");
    if cfg!(unix) {
        let message = open(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(message.contains("cannot be read: it is a device"), "{message}");
    }
}

#[test]
fn what_is_no_text_is_named() {
    let utf16: Vec<u8> = "x,y\n1,2\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let marked = [&[0xff, 0xfe], &utf16[..]].concat();
    for (bytes, why) in [(&utf16, "NUL bytes"), (&marked, "is UTF-16"), (&vec![0; 99], "NUL bytes")]
    {
        let mut lines = Source::from_bytes("a", bytes.clone()).unwrap().lines();
        let message = lines.next().unwrap_err().to_string();
        assert!(message.starts_with("a: ") && message.contains(why), "{message}");
    }
}
