//! Files of `torch.save`, made by hand.

/// A zip archive of stored entries without checksums.
pub fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in entries {
        let (start, len) = (bytes.len() as u32, data.len() as u32);
        let name_len = (name.len() as u16).to_le_bytes();
        bytes.extend(b"PK\x03\x04");
        bytes.extend([0; 14]); // version, flags, method, time, checksum
        bytes.extend([len.to_le_bytes(), len.to_le_bytes()].concat());
        bytes.extend([name_len, [0, 0]].concat());
        bytes.extend([name.as_bytes(), data].concat());
        directory.extend(b"PK\x01\x02");
        directory.extend([0; 16]); // versions, flags, method, time, checksum
        directory.extend([len.to_le_bytes(), len.to_le_bytes()].concat());
        directory.extend(name_len);
        directory.extend([0; 12]); // extra, comment, disk, attributes
        directory.extend(start.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (start, count) = (bytes.len() as u32, (entries.len() as u16).to_le_bytes());
    bytes.extend(&directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend([count, count].concat());
    bytes.extend([(directory.len() as u32).to_le_bytes(), start.to_le_bytes()].concat());
    bytes.extend([0, 0]); // comment
    bytes
}

/// A pickle with its storages `data/0`, `data/1`, ..
pub fn pt(pickle: &[u8], storages: &[&[u8]]) -> Vec<u8> {
    let names: Vec<String> = (0..storages.len()).map(|i| format!("m/data/{i}")).collect();
    let mut entries = vec![("m/data.pkl", pickle), ("m/byteorder", b"little".as_slice())];
    entries.extend(names.iter().map(String::as_str).zip(storages.iter().copied()));
    zip(&entries)
}
