//! `drnn reproduce pos`: the paper's tables of part-of-speech tagging.

use super::Job;
use crate::Failure;
use crate::args::reading::Reading;
use crate::console::progress;
use crate::memory::Needs;
use crate::report::pos::{Language, PosResults, Run, paper_pairs};
use crate::report::{Provenance, Reported, publish};
use crate::training::place::Place;
use crate::training::tagger::TaggerInTraining;
use crate::training::treebank::{Treebank, WordSource};
use crate::training::{self, Running, Watch};
use clap::Args;
use drnn::Cpu;
use drnn::text::counted;
use drnn_tasks::tagger::{Counting, Limits, Tagger};
use drnn_train::lanes::Lane;
use drnn_train::tagger::{Scores, Sizes};
use drnn_train::{Engine, Metric, Options, PaperNet, Reason, Trainer, seed};
use std::panic::resume_unwind;
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
    /// Pairs that are no product of networks over characters and over words: a campaign's
    #[arg(skip)]
    pairs: Option<Vec<[PaperNet; 2]>>,
    /// Only the first sentences of each part: a campaign's trial
    #[arg(skip)]
    sentences: Option<usize>,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let results = arguments.results(training::command())?;
    publish(&results, &arguments.out(), arguments.json)?;
    let ran_away = results.runs.iter().filter(|run| run.ended == Reason::NotFinite);
    let names: Vec<String> =
        ran_away.map(|run| lane_name([run.chars, run.words], run.repetition)).collect();
    training::check_finite(names.iter().map(String::as_str))
}

/// The name of a training in progress, log and checkpoints.
fn lane_name([chars, words]: [PaperNet; 2], repetition: usize) -> String {
    format!("{chars}_{words}_{repetition}")
}

/// All finished trainings, side by side: each is scored by one core.
fn all_scored(
    lanes: &mut [Lane<TaggerInTraining>],
    which: &[([PaperNet; 2], usize)],
    bank: &Treebank,
    cpu: &Cpu,
) -> Result<Vec<Run>, Failure> {
    let (each, one) = (lanes.len().div_ceil(cpu.threads()).max(1), cpu.with_threads(1));
    let some = |lanes: &mut [Lane<TaggerInTraining>], which: &[([PaperNet; 2], usize)]| {
        let all = lanes.iter_mut().zip(which);
        let runs = all.map(|(lane, &(pair, i))| scored(&mut lane.trainer, bank, &one, pair, i));
        runs.collect::<Result<Vec<Run>, Failure>>()
    };
    let parts = lanes.chunks_mut(each).zip(which.chunks(each));
    let all: Vec<Result<Vec<Run>, Failure>> = std::thread::scope(|scope| {
        let some = &some;
        let threads: Vec<_> =
            parts.map(|(lanes, which)| scope.spawn(move || some(lanes, which))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|e| resume_unwind(e)))
            .collect()
    });
    Ok(all.into_iter().collect::<Result<Vec<_>, _>>()?.concat())
}

/// The finished training of a pair of networks, with its scores unless its loss became NaN.
fn scored(
    trainer: &mut Trainer<TaggerInTraining>,
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
    /// One training of each of these pairs with `seed`, for a campaign: by the paper's protocol, or on
    /// `sentences` sentences for a trial.
    pub fn for_campaign(
        lang: Language,
        pairs: Vec<[PaperNet; 2]>,
        seed: u64,
        (vectors, sentences): (Option<PathBuf>, Option<usize>),
        job: Job,
    ) -> Arguments {
        Arguments {
            lang,
            data: job.data,
            full: true,
            chars: None,
            words: None,
            vectors,
            repeats: Some(1),
            epochs: sentences.map(|_| 1),
            seed,
            out: Some(job.folder),
            running: job.running,
            json: false,
            pairs: Some(pairs),
            sentences,
        }
    }

    fn out(&self) -> PathBuf {
        self.out.clone().unwrap_or_else(|| format!("out/pos-{}", self.lang.name()).into())
    }

    /// Trains and tests all pairs. Checkpoints are in the folder `out`.
    pub fn results(&self, command: String) -> Result<PosResults, Failure> {
        let started = SystemTime::now();
        let cpu = training::cpu(self.running.threads)?;
        let place = self.running.place.find()?;
        let bank = self.treebank()?;
        let (options, pairs) = (self.options(), self.pairs()?);
        let repeats = usize::from(self.repeats.unwrap_or(if self.full { 5 } else { 1 }));
        self.check_memory(&bank, &pairs, repeats, (&cpu, &place))?;
        let all = (0..repeats).flat_map(|i| pairs.iter().map(move |&pair| (pair, i)));
        let which: Vec<([PaperNet; 2], usize)> = all.collect();
        let trainers = self.trainers(&bank, &which, (&cpu.with_threads(1), &place))?;
        let out = self.out();
        let folder = self.running.folder(&out, &["pos.json"], training::EARLIER)?;
        let names: Vec<String> = which.iter().map(|&(pair, i)| lane_name(pair, i)).collect();
        let lanes = trainers.into_iter().zip(&names);
        let lanes = lanes.map(|(trainer, name)| self.running.lane(trainer, &folder, name));
        let mut lanes: Vec<_> = lanes.collect::<Result<_, _>>()?;
        let (count, epochs, threads) = (lanes.len(), options.epochs, cpu.threads());
        let described = bank.describe();
        progress!("{described}\n{count} trainings, {epochs} epochs each, {threads} threads");
        let deviations = self.deviations(&options, repeats);
        deviations.iter().for_each(|deviation| progress!("differs from the paper: {deviation}"));
        let watch = Watch::new(names, Metric::Accuracy, &out.join("log.jsonl"))?;
        self.running.run(&cpu, &place, &mut lanes, &watch, &command, &|_, _| Ok(()))?;
        let runs = all_scored(&mut lanes, &which, &bank, &cpu)?;
        let provenance =
            Provenance::new(command, self.seed, &cpu, &place, started, watch.earlier());
        Ok(PosResults {
            kind: PosResults::KIND.into(),
            format: PosResults::FORMAT,
            provenance,
            lang: self.lang.name().into(),
            what: described,
            options,
            deviations,
            notes: bank.notes(),
            runs,
        })
    }

    fn treebank(&self) -> Result<Treebank, Failure> {
        let files = treebank_files(&self.data, self.lang)?;
        let bank = Treebank::read(
            files.each_ref().map(|file| Some(file.as_path())),
            Counting::Lines,
            self.vectors.as_deref(),
            false,
            WordSource::TrainingSet(&Limits::default()),
            Reading::default(),
        )?;
        Ok(match self.sentences {
            Some(sentences) => bank.first(sentences),
            None => bank,
        })
    }

    fn check_memory(
        &self,
        bank: &Treebank,
        pairs: &[[PaperNet; 2]],
        repeats: usize,
        (cpu, place): (&Cpu, &Place),
    ) -> Result<(), Failure> {
        let mut needs = Vec::new();
        for &pair in pairs {
            let net = bank.net(pair, &Sizes::default())?;
            let one = bank.needs(place, &net, &self.options(), 1)?;
            needs.extend(std::iter::repeat_n(one, repeats));
        }
        let threads = place.threads(cpu, needs.len());
        let needs = Needs::side_by_side(needs, threads);
        let less = "fewer of --char and --word, or --repeats";
        needs.check_at(self.running.force, place, less)
    }

    fn trainers<'a>(
        &self,
        bank: &'a Treebank,
        which: &[([PaperNet; 2], usize)],
        (one, place): (&Cpu, &Place),
    ) -> Result<Vec<Trainer<'a, TaggerInTraining>>, Failure> {
        let trainer = |&(pair, repetition): &([PaperNet; 2], usize)| {
            let seed = seed::of_repetition(self.seed, repetition);
            let options = Options { seed, ..self.options() };
            let net = bank.net(pair, &Sizes::default())?;
            let engine = bank.engine(place, one, net, &options)?;
            let name = format!("pos {}; {}; {repetition}", self.lang.name(), bank.describe());
            Ok(Trainer::with_engine(engine, options, &name, &bank.train, &bank.dev)?)
        };
        which.iter().map(trainer).collect()
    }

    pub fn options(&self) -> Options {
        let epochs = self.epochs.map_or(if self.full { 20 } else { 10 }, |n| n as usize);
        Options { epochs, batch: 32, seed: self.seed, ..Options::default() }
    }

    /// Pairs of char net and word net, each once.
    fn pairs(&self) -> Result<Vec<[PaperNet; 2]>, Failure> {
        use PaperNet::{BiLstm, DLstm, Lstm};
        let pairs: Vec<[PaperNet; 2]> = match (&self.chars, &self.words) {
            _ if self.pairs.is_some() => self.pairs.clone().unwrap_or_default(),
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
        if let Some(sentences) = self.sentences {
            found.push(format!("the first {sentences} sentences of each part"));
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
}

/// The treebank's three files in a folder and its folders.
pub fn treebank_files(data: &Path, lang: Language) -> Result<[PathBuf; 3], Failure> {
    let mut found = Vec::new();
    collect(data, 2, &mut found);
    found.sort();
    let (lang, data) = (lang.name(), data.display());
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
                "{data}: no {lang}*{part}*.conllu or .tsv (plain or compressed) in it or its folders; the \
                 README says where treebanks are to be had"
            ))),
            [a, b, ..] => Err(Failure::Input(format!(
                "{data}: {} and {} could both be the {part} set; give a folder with one of them",
                a.display(),
                b.display()
            ))),
        }
    };
    Ok([one("train")?, one("dev")?, one("test")?])
}

/// The file with GloVe's vectors in a folder and its folders, if there is one.
pub fn glove_file(data: &Path) -> Option<PathBuf> {
    let mut found = Vec::new();
    collect(data, 2, &mut found);
    found.sort();
    let is_glove = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        name.starts_with("glove") && name.contains(".txt")
    };
    found.into_iter().find(is_glove)
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
