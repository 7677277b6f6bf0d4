//! `drnn reproduce pos`: the paper's tables of part-of-speech tagging.

use crate::Failure;
use crate::args::reading::Reading;
use crate::console::progress;
use crate::memory::Needs;
use crate::report::pos::{PosResults, Run, paper_pairs};
use crate::report::{Provenance, Reported, publish};
use crate::training::treebank::{Treebank, WordSource};
use crate::training::{self, Running, Watch};
use clap::{Args, ValueEnum};
use drnn::Cpu;
use drnn::text::counted;
use drnn_tasks::tagger::{Counting, Limits, Tagger};
use drnn_train::tagger::{Scores, Sizes, TaggerLearner};
use drnn_train::{Engine, Metric, Options, PaperNet, Reason, Trainer, seed};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Part-of-speech tagging: a network over characters below one over words, in all the paper's pairs
///
/// Without --full three pairs, 10 epochs, once: about 15 minutes on 2 cores. With it all 31 pairs of the
/// language, 20 epochs, 5 times. Accuracy is over words; paper_acc counts every line of the treebank, as the paper's
/// authors do. If it was interrupted with Ctrl-C or killed, --resume continues it.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Language
    #[arg(long, value_enum, default_value = "en")]
    lang: Language,
    /// Folder with the treebank's three files, also in sub-folders
    #[arg(long, value_name = "DIR", env = "DRNN_DATA")]
    data: PathBuf,
    /// All of the paper's pairs, 20 epochs, 5 repetitions
    #[arg(long)]
    full: bool,
    /// Networks over characters, each with every one over words: lstm, bilstm, dlstm-D
    #[arg(long = "char", value_name = "NET,..", value_delimiter = ',', requires = "words")]
    chars: Option<Vec<PaperNet>>,
    /// Networks over words
    #[arg(long = "word", value_name = "NET,..", value_delimiter = ',', requires = "chars")]
    words: Option<Vec<PaperNet>>,
    /// Word vectors as text, which are not trained [default: 64 values learned from the training words]
    #[arg(long, value_name = "FILE")]
    vectors: Option<PathBuf>,
    /// Trainings of each pair, from different seeds [default: 1; with --full 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    repeats: Option<u16>,
    /// Epochs [default: 10; with --full 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    epochs: Option<u32>,
    /// Random seed of parameters and batch order
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for results, report and checkpoints [default: out/pos-LANG]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    running: Running,
    /// Print the contents of pos.json instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Language {
    En,
    Fr,
    De,
}

impl Language {
    fn name(self) -> &'static str {
        match self {
            Language::En => "en",
            Language::Fr => "fr",
            Language::De => "de",
        }
    }

    /// Differences from the paper with these files.
    fn deviation(self) -> Option<&'static str> {
        match self {
            Language::En => None,
            Language::Fr => Some(
                "a later release of the French treebank than the paper's may be at hand: compare trends, not digits",
            ),
            Language::De => Some(
                "the German treebank at hand may be the one that the paper's was made from, with 12 tags: compare trends, not digits",
            ),
        }
    }
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let started = SystemTime::now();
    let cpu = training::cpu(arguments.running.threads)?;
    let place = arguments.running.place.only_cpu("taggers")?;
    let lang = arguments.lang.name();
    let files = arguments.files()?;
    let files = [Some(files[0].as_path()), Some(&files[1]), Some(&files[2])];
    let limits = Limits::default();
    let bank = Treebank::read(
        files,
        Counting::Lines,
        arguments.vectors.as_deref(),
        false,
        WordSource::TrainingSet(&limits),
        Reading::default(),
    )?;
    let (options, pairs) = (arguments.options(), arguments.pairs()?);
    let repeats = arguments.repeats.unwrap_or(if arguments.full { 5 } else { 1 });
    let out = arguments.out.clone().unwrap_or_else(|| format!("out/pos-{lang}").into());
    let one = cpu.with_threads(1);
    let mut needs = Vec::new();
    for &pair in &pairs {
        let one = bank.needs(&bank.net(pair, &Sizes::default())?, &options, 1);
        needs.extend(std::iter::repeat_n(one, repeats.into()));
    }
    let needs = Needs::side_by_side(needs, cpu.threads());
    needs.check(arguments.running.force, "fewer of --char and --word, or --repeats")?;
    let (mut trainers, mut which) = (Vec::new(), Vec::new());
    for repetition in 0..usize::from(repeats) {
        for &pair in &pairs {
            let seed = seed::of_repetition(arguments.seed, repetition);
            let options = Options { seed, ..options };
            let net = bank.net(pair, &Sizes::default())?;
            let engine = bank.learner(&one, net, &options)?;
            let name = format!("pos {lang}; {}; {repetition}", bank.describe());
            trainers.push(Trainer::with_engine(engine, options, &name, &bank.train, &bank.dev)?);
            which.push((pair, repetition));
        }
    }
    let folder = arguments.running.folder(&out, &["pos.json"], training::EARLIER)?;
    let names: Vec<String> = which.iter().map(|([c, w], i)| format!("{c}_{w}_{i}")).collect();
    let lanes = trainers.into_iter().zip(&names);
    let lanes = lanes.map(|(trainer, name)| arguments.running.lane(trainer, &folder, name));
    let mut lanes: Vec<_> = lanes.collect::<Result<_, _>>()?;
    let deviations = arguments.deviations(&options, repeats.into());
    progress!(
        "{}\n{} trainings, {} epochs each, {} threads",
        bank.describe(),
        lanes.len(),
        options.epochs,
        cpu.threads()
    );
    deviations.iter().for_each(|deviation| progress!("differs from the paper: {deviation}"));
    let command = training::command();
    let watch = Watch::new(names.clone(), Metric::Accuracy, &out.join("log.jsonl"))?;
    arguments.running.run(&cpu, &place, &mut lanes, &watch, &command, &|_, _| Ok(()))?;
    let mut runs = Vec::new();
    for (lane, (pair, repetition)) in lanes.iter_mut().zip(which) {
        runs.push(scored(&mut lane.trainer, &bank, &cpu, pair, repetition)?);
    }
    let results = PosResults {
        kind: PosResults::KIND.into(),
        format: PosResults::FORMAT,
        provenance: Provenance::new(
            command,
            arguments.seed,
            &cpu,
            &place,
            started,
            watch.earlier(),
        ),
        lang: lang.into(),
        what: bank.describe(),
        options,
        deviations,
        notes: bank.notes(),
        runs,
    };
    publish(&results, &out, arguments.json)?;
    let ran_away =
        results.runs.iter().zip(&names).filter(|(run, _)| run.ended == Reason::NotFinite);
    training::check_finite(ran_away.map(|(_, name)| name.as_str()))
}

/// The finished training of a pair of networks, with its scores unless its loss became NaN.
fn scored(
    trainer: &mut Trainer<TaggerLearner>,
    bank: &Treebank,
    cpu: &Cpu,
    [chars, words]: [PaperNet; 2],
    repetition: usize,
) -> Result<Run, Failure> {
    let progress = trainer.progress().clone();
    let engine = trainer.engine();
    let params = engine.state()?.params;
    let ended = progress.ended.unwrap_or(Reason::Epochs);
    let mut scores = [None, None];
    if ended != Reason::NotFinite {
        let net = engine.net().clone();
        let tagger = Tagger::new(bank.vocabulary.clone(), bank.counting, net, &params)?.on(cpu);
        for (scores, part) in scores.iter_mut().zip([Some(&bank.dev), bank.test.as_ref()]) {
            *scores = part.map(|part| Scores::of(&tagger, part)).transpose()?.map(Into::into);
        }
    }
    let [dev, test] = scores;
    let (parameters, epochs) = (params.len(), progress.history.len());
    let seconds = progress.seconds;
    Ok(Run { chars, words, repetition, parameters, dev, test, epochs, ended, seconds })
}

impl Arguments {
    fn options(&self) -> Options {
        let epochs = self.epochs.map_or(if self.full { 20 } else { 10 }, |n| n as usize);
        Options { epochs, batch: 32, seed: self.seed, ..Options::default() }
    }

    /// Pairs of char net and word net, each once.
    fn pairs(&self) -> Result<Vec<[PaperNet; 2]>, Failure> {
        use PaperNet::{BiLstm, DLstm, Lstm};
        let pairs: Vec<[PaperNet; 2]> = match (&self.chars, &self.words) {
            (Some(chars), Some(words)) => {
                chars.iter().flat_map(|&c| words.iter().map(move |&w| [c, w])).collect()
            }
            _ if self.full => paper_pairs(self.lang.name()),
            _ => vec![[BiLstm, BiLstm], [DLstm(1), DLstm(1)], [Lstm, Lstm]],
        };
        for (i, [c, w]) in pairs.iter().enumerate() {
            if pairs[..i].contains(&[*c, *w]) {
                return Err(Failure::Input(format!(
                    "--char, --word: {c} below {w} is given twice"
                )));
            }
            if [c, w].iter().any(|net| matches!(net, DLstm(d) if !(1..=50).contains(d))) {
                return Err(Failure::Input(format!("{c} below {w}: expected delays from 1 to 50")));
            }
        }
        Ok(pairs)
    }

    fn deviations(&self, options: &Options, repeats: usize) -> Vec<String> {
        let mut found = Vec::new();
        if options.epochs != 20 {
            found.push(format!("{} epochs (paper: 20)", options.epochs));
        }
        if repeats != 5 {
            found.push(format!("{} (paper: 5)", counted(repeats, "repetition")));
        }
        found.push(match &self.vectors {
            Some(path) => format!("word vectors of {} (paper: Polyglot)", path.file_name().unwrap_or_default().to_string_lossy()),
            None => "64 values per word learned from the training words (paper: Polyglot vectors, not trained)".into(),
        });
        found.extend(self.lang.deviation().map(String::from));
        found
    }

    /// The treebank's three files.
    fn files(&self) -> Result<[PathBuf; 3], Failure> {
        let mut found = Vec::new();
        collect(&self.data, 2, &mut found);
        found.sort();
        let lang = self.lang.name();
        let one = |part: &str| {
            let of_part = |path: &&PathBuf| {
                let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
                name.starts_with(lang)
                    && name.contains(part)
                    && (name.contains(".conllu") || name.contains(".tsv"))
            };
            let paths: Vec<&PathBuf> = found.iter().filter(of_part).collect();
            match paths.as_slice() {
                [one] => Ok((*one).clone()),
                [] => Err(Failure::Input(format!(
                    "{}: no {lang}*{part}*.conllu or .tsv (plain or compressed) in it or its folders; the README says where \
                     treebanks are to be had",
                    self.data.display()
                ))),
                [a, b, ..] => Err(Failure::Input(format!(
                    "{}: {} and {} could both be the {part} set; give a folder with one of them",
                    self.data.display(),
                    a.display(),
                    b.display()
                ))),
            }
        };
        Ok([one("train")?, one("dev")?, one("test")?])
    }
}

/// All files in a folder and its sub-folders, up to `depth` levels.
fn collect(folder: &Path, depth: usize, to: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        match path.is_dir() {
            true if depth > 1 => collect(&path, depth - 1, to),
            true => {}
            false => to.push(path),
        }
    }
}
