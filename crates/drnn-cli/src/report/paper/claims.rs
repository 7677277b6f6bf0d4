//! Claims of the paper, and what the trainings say to each.

use super::statistics::Paired;

/// A claim of the paper.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// What the paper says.
    pub claim: String,
    pub verdict: Verdict,
    /// The numbers that led to the verdict.
    pub evidence: String,
}

/// Whether a claim holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Holds,
    InPart,
    DoesNot,
    /// Too few trainings to say.
    NotYet,
}

impl Verdict {
    pub const ALL: [Verdict; 4] =
        [Verdict::Holds, Verdict::InPart, Verdict::DoesNot, Verdict::NotYet];

    pub fn text(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::InPart => "holds in part",
            Verdict::DoesNot => "does not hold",
            Verdict::NotYet => "not yet enough trainings",
        }
    }

    /// For style sheets.
    pub fn class(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::InPart => "part",
            Verdict::DoesNot => "fails",
            Verdict::NotYet => "open",
        }
    }

    /// Of a single case.
    pub fn of(holds: bool) -> Verdict {
        if holds { Verdict::Holds } else { Verdict::DoesNot }
    }

    /// Whether the first of two networks has the lower score.
    pub fn of_lower(found: &Paired, printed_sd: Option<f64>) -> Verdict {
        match found.is_decided(printed_sd) {
            true if found.mean < 0.0 => Verdict::Holds,
            true => Verdict::DoesNot,
            false => Verdict::NotYet,
        }
    }

    /// Of a claim about several cases: in part where only some of them hold.
    pub fn of_all(cases: &[Verdict]) -> Verdict {
        let has = |verdict| cases.contains(&verdict);
        match (has(Verdict::Holds), has(Verdict::DoesNot), has(Verdict::InPart)) {
            _ if cases.is_empty() => Verdict::NotYet,
            (_, _, true) | (true, true, _) => Verdict::InPart,
            (false, true, false) => Verdict::DoesNot,
            (true, false, false) => Verdict::Holds,
            (false, false, false) => Verdict::NotYet,
        }
    }
}

impl Claim {
    pub fn new(claim: &str, verdict: Verdict, evidence: String) -> Claim {
        Claim { claim: claim.into(), verdict, evidence }
    }

    /// Nothing was trained that could say.
    pub fn open(claim: &str, tasks: &str) -> Claim {
        let evidence = format!("No trainings yet; tasks {tasks}.");
        Claim::new(claim, Verdict::NotYet, evidence)
    }
}

/// How verdicts are found, for the reader.
pub const RULE: &str = "Networks are compared over the seeds that both have, which share data, masks and test \
    set. With three seeds or more, a paired t-test at 5 % decides. With fewer, a difference counts if it is more \
    than three times the standard deviation that the paper prints for it. A claim that networks are as good, up to \
    a limit, holds where the difference is on this side of the limit by the same rule.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_of_several_cases() {
        use Verdict::{DoesNot, Holds, InPart, NotYet};
        assert_eq!(Verdict::of_all(&[Holds, Holds, NotYet]), Holds);
        assert_eq!(Verdict::of_all(&[Holds, DoesNot]), InPart);
        assert_eq!(Verdict::of_all(&[DoesNot, NotYet]), DoesNot);
        assert_eq!(Verdict::of_all(&[Holds, InPart]), InPart);
        assert_eq!(Verdict::of_all(&[NotYet]), NotYet);
        assert_eq!(Verdict::of_all(&[]), NotYet);
    }

    #[test]
    fn a_lower_score_holds_where_it_is_decided() {
        let found = |mean| Paired { n: 1, mean, sd: None, p: None };
        assert_eq!(Verdict::of_lower(&found(-1.0), Some(0.1)), Verdict::Holds);
        assert_eq!(Verdict::of_lower(&found(1.0), Some(0.1)), Verdict::DoesNot);
        assert_eq!(Verdict::of_lower(&found(-0.1), Some(0.1)), Verdict::NotYet);
    }
}
