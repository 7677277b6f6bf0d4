//! Which characters of a text stand for a mask.

/// An element of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A character, as it came.
    Known(char),
    /// A character to be filled in.
    Hole,
}

/// Finds masks, whose texts may be several characters long.
#[derive(Debug)]
pub struct Holes {
    masks: Vec<Vec<char>>,
    /// Characters with which a mask may begin.
    open: Vec<char>,
}

const USUAL: [&str; 2] = ["_", "[MASK]"];

impl Holes {
    /// Of these texts, or the usual ones.
    pub fn new(texts: &[String]) -> Result<Holes, String> {
        let masks: Vec<Vec<char>> = match texts {
            [] => USUAL.map(|text| text.chars().collect()).into(),
            texts => texts.iter().map(|text| text.chars().collect()).collect(),
        };
        for (i, mask) in masks.iter().enumerate() {
            if mask.is_empty() {
                return Err("--mask-text: nothing stands for nothing".into());
            }
            let longer = |(j, other): (usize, &Vec<char>)| i != j && other.starts_with(mask);
            if masks.iter().enumerate().any(longer) {
                let mask: String = mask.iter().collect();
                return Err(format!("--mask-text: another one begins with {mask:?} too"));
            }
        }
        Ok(Holes { masks, open: Vec::new() })
    }

    /// Reads a character; hands on what is clear now.
    pub fn take<E>(
        &mut self,
        character: char,
        mut to: impl FnMut(Mark) -> Result<(), E>,
    ) -> Result<(), E> {
        self.open.push(character);
        while !self.open.is_empty() {
            if self.masks.contains(&self.open) {
                self.open.clear();
                return to(Mark::Hole);
            }
            if self.masks.iter().any(|mask| mask.starts_with(&self.open)) {
                return Ok(()); // until more is known
            }
            to(Mark::Known(self.open.remove(0)))?;
        }
        Ok(())
    }

    /// What was left open is no mask.
    pub fn end<E>(&mut self, to: impl FnMut(Mark) -> Result<(), E>) -> Result<(), E> {
        self.open.drain(..).map(Mark::Known).try_for_each(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str], text: &str) -> String {
        let texts: Vec<String> = texts.iter().map(|text| text.to_string()).collect();
        let mut holes = Holes::new(&texts).unwrap();
        let mut found = String::new();
        let mut put = |mark| {
            found.push(if let Mark::Known(c) = mark { c } else { '#' });
            Ok::<(), ()>(())
        };
        text.chars().for_each(|c| holes.take(c, &mut put).unwrap());
        holes.end(&mut put).unwrap();
        found
    }

    #[test]
    fn masks_are_found() {
        assert_eq!(read(&[], "a_b[MASK]c"), "a#b#c");
        assert_eq!(read(&[], "[MA_[[MASK][MASK"), "[MA#[#[MASK");
        assert_eq!(read(&["?"], "a_?[MASK]"), "a_#[MASK]");
        assert_eq!(read(&["aab"], "aaab"), "a#");
        assert_eq!(read(&["€€"], "€€€"), "#€");
        assert!(Holes::new(&["".into()]).is_err());
        assert!(Holes::new(&["_".into(), "__".into()]).unwrap_err().contains("begins with \"_\""));
        assert!(Holes::new(&["_".into(), "_".into()]).is_err());
    }
}
