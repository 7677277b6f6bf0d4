//! Finds the masks in a text.

/// An element of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A character of the text.
    Known(char),
    /// A masked character, to be filled in.
    Masked,
}

/// Finds masks. The text of a mask may have several characters.
#[derive(Debug)]
pub struct Masks {
    masks: Vec<Vec<char>>,
    /// The last characters read, if a mask may begin with them.
    open: Vec<char>,
}

/// The default masks.
const DEFAULT: [&str; 2] = ["_", "[MASK]"];

impl Masks {
    /// With these texts as masks, or the default ones.
    pub fn new(texts: &[String]) -> Result<Masks, String> {
        let masks: Vec<Vec<char>> = match texts {
            [] => DEFAULT.map(|text| text.chars().collect()).into(),
            texts => texts.iter().map(|text| text.chars().collect()).collect(),
        };
        for (i, mask) in masks.iter().enumerate() {
            if mask.is_empty() {
                return Err(
                    "--mask-text is empty; give the text that stands for a masked character".into(),
                );
            }
            let longer = |(j, other): (usize, &Vec<char>)| i != j && other.starts_with(mask);
            if masks.iter().enumerate().any(longer) {
                let mask: String = mask.iter().collect();
                return Err(format!("--mask-text: another mask also begins with {mask:?}"));
            }
        }
        Ok(Masks { masks, open: Vec::new() })
    }

    /// Reads a character; passes on the marks that are certain now.
    pub fn take<E>(
        &mut self,
        character: char,
        mut to: impl FnMut(Mark) -> Result<(), E>,
    ) -> Result<(), E> {
        self.open.push(character);
        while !self.open.is_empty() {
            if self.masks.contains(&self.open) {
                self.open.clear();
                return to(Mark::Masked);
            }
            if self.masks.iter().any(|mask| mask.starts_with(&self.open)) {
                return Ok(()); // the next character decides
            }
            to(Mark::Known(self.open.remove(0)))?;
        }
        Ok(())
    }

    /// The text has ended: an incomplete mask is plain characters.
    pub fn end<E>(&mut self, to: impl FnMut(Mark) -> Result<(), E>) -> Result<(), E> {
        self.open.drain(..).map(Mark::Known).try_for_each(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str], text: &str) -> String {
        let texts: Vec<String> = texts.iter().map(|text| text.to_string()).collect();
        let mut masks = Masks::new(&texts).unwrap();
        let mut found = String::new();
        let mut put = |mark| {
            found.push(if let Mark::Known(c) = mark { c } else { '#' });
            Ok::<(), ()>(())
        };
        text.chars().for_each(|c| masks.take(c, &mut put).unwrap());
        masks.end(&mut put).unwrap();
        found
    }

    #[test]
    fn masks_are_found() {
        assert_eq!(read(&[], "a_b[MASK]c"), "a#b#c");
        assert_eq!(read(&[], "[MA_[[MASK][MASK"), "[MA#[#[MASK");
        assert_eq!(read(&["?"], "a_?[MASK]"), "a_#[MASK]");
        assert_eq!(read(&["aab"], "aaab"), "a#");
        assert_eq!(read(&["€€"], "€€€"), "#€");
        assert!(Masks::new(&["".into()]).is_err());
        assert!(Masks::new(&["_".into(), "__".into()]).unwrap_err().contains("begins with \"_\""));
        assert!(Masks::new(&["_".into(), "_".into()]).is_err());
    }
}
