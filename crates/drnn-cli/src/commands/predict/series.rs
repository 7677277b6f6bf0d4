//! Rows of a table or an array, and the predictions for them.
//!
//! ```text
//! id,x        ->  id,x,predicted_y           every row of the table has one, in the same order,
//!                                            with the delimiter of the table
//! X (T, B, q) ->  sequence,step,predicted_y
//! ```
//!
//! With a delay of d the last d rows wait for their predictions; a bidirectional network makes all rows
//! of a sequence wait for its end.

use super::predictor::Predictor;
use super::sheet::{Cell, Sheet};
use crate::Failure;
use crate::args::series::unknown_categories;
use crate::console::note;
use crate::training::placed::PlacedLive;
use drnn::text::grouped;
use drnn_tasks::live::{Element, LiveModel, Predicted};
use drnn_tasks::series::{Missing, SeriesTask};
use drnn_tasks::text::quote;
use drnn_train::read::{self, ElementRow, ElementRows, Records, Source, Values};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::Write;

/// What is written.
pub struct Options<'a> {
    /// Columns to repeat; None for all.
    pub columns: Option<&'a [String]>,
    /// Whether each class has a column with its probability.
    pub probabilities: bool,
}

/// Writes a row for each row that is read; how many.
pub fn predict<W: Write>(
    model: &LiveModel,
    placed: &PlacedLive,
    source: Source,
    options: &Options,
    sheet: Sheet<W>,
) -> Result<usize, Failure> {
    let Some(task) = model.series() else {
        return Err(Failure::Input("not a model of series".into()));
    };
    if options.probabilities && task.classes.is_none() {
        let why = "--probabilities: the model predicts values, which have none";
        return Err(Failure::Input(why.into()));
    }
    let predictor = Predictor::new(model, placed)?;
    let form = Form::new(task, options.probabilities);
    let waiting = VecDeque::new();
    let mut writer = Writer { model, predictor, form, waiting, sheet, left_out: 0, unknown: 0 };
    match source.is_array() {
        true => array(task, source, options, &mut writer)?,
        false => table(model, source, options, &mut writer)?,
    }
    writer.end()?;
    if writer.left_out > 0 {
        let n = grouped(writer.left_out);
        note!("{n} rows with missing numbers have no prediction: training left such rows out too");
    }
    unknown_categories(writer.unknown).iter().for_each(|text| note!("{text}"));
    Ok(writer.sheet.finish()?)
}

/// How the predictions for a row become cells.
struct Form<'m> {
    task: &'m SeriesTask,
    /// The place of each class among the columns of probabilities.
    places: Option<HashMap<&'m str, usize>>,
}

impl<'m> Form<'m> {
    fn new(task: &'m SeriesTask, probabilities: bool) -> Form<'m> {
        let classes = task.classes.iter().flatten().enumerate();
        let places = classes.map(|(i, class)| (class.as_str(), i)).collect();
        Form { task, places: (probabilities && task.classes.is_some()).then_some(places) }
    }

    /// Names of the columns.
    fn columns(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.task.targets.iter().map(|target| format!("predicted_{target}")).collect();
        if let Some(classes) = &self.task.classes {
            names.push("probability".into());
            if self.places.is_some() {
                names.extend(classes.iter().map(|class| format!("probability_{class}")));
            }
        }
        names
    }

    fn cells(&self, predicted: &Predicted, cells: &mut Vec<Cell>) {
        match predicted {
            Predicted::Named { values } => {
                cells.extend(values.iter().map(|(_, value)| Cell::Number(*value)));
            }
            Predicted::Class { class, probability, probabilities } => {
                cells.extend([Cell::Text(class.to_string()), Cell::Number(*probability)]);
                if let Some(places) = &self.places {
                    let start = cells.len();
                    cells.resize(start + places.len(), Cell::None);
                    for (class, probability) in probabilities {
                        cells[start + places[class]] = Cell::Number(*probability);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Rows that were read, and predictions for them.
struct Writer<'m, W: Write> {
    model: &'m LiveModel,
    predictor: Predictor<'m>,
    form: Form<'m>,
    /// Rows that wait, with the cells to repeat; those without a prediction wait for their turn.
    waiting: VecDeque<(Vec<Cell>, bool)>,
    sheet: Sheet<W>,
    /// Rows without a prediction.
    left_out: usize,
    /// Fields with categories that the model does not know.
    unknown: usize,
}

impl<W: Write> Writer<'_, W> {
    /// The next row of the sequence.
    fn push(&mut self, repeated: Vec<Cell>, element: Element) -> Result<(), Failure> {
        let leaves_out = self.form.task.missing == Missing::Drop;
        if leaves_out && matches!(&element, Element::Numbers(x) if x.iter().any(|x| x.is_nan())) {
            self.left_out += 1;
            self.waiting.push_back((repeated, false));
            return self.write_without();
        }
        self.waiting.push_back((repeated, true));
        self.unknown += self.model.unknown_categories(&element);
        match self.predictor.push(element)? {
            Some(prediction) => self.write(&prediction.value),
            None => Ok(()),
        }
    }

    /// Ends the sequence.
    fn end(&mut self) -> Result<(), Failure> {
        for prediction in self.predictor.end()? {
            self.write(&prediction.value)?;
        }
        Ok(())
    }

    /// The prediction for the first row that waits for one.
    fn write(&mut self, predicted: &Predicted) -> Result<(), Failure> {
        if let Some((mut cells, _)) = self.waiting.pop_front() {
            self.form.cells(predicted, &mut cells);
            self.sheet.row(&cells)?;
        }
        self.write_without()
    }

    /// Rows without a prediction whose turn it is.
    fn write_without(&mut self) -> Result<(), Failure> {
        while let Some((_, false)) = self.waiting.front() {
            let Some((mut cells, _)) = self.waiting.pop_front() else { break };
            let width = self.form.columns().len();
            cells.resize(cells.len() + width, Cell::None);
            self.sheet.row(&cells)?;
        }
        Ok(())
    }
}

fn table<W: Write>(
    model: &LiveModel,
    source: Source,
    options: &Options,
    writer: &mut Writer<W>,
) -> Result<(), Failure> {
    let mut records = Records::new(source.lines());
    let mut rows = ElementRows::new(model);
    let mut kept: Option<Vec<usize>> = None;
    let mut begun = 0;
    loop {
        let Some(record) = records.next()? else { break };
        let row = rows.read(record).map_err(|e| records.refuse(e))?;
        let ElementRow::Element { element, begins } = row else { continue };
        let kept = match &kept {
            Some(kept) => kept,
            None => {
                let header = rows.header().unwrap_or_default();
                let found = repeated(header, options.columns)
                    .map_err(|why| Failure::Input(format!("{}: {why}", records.name())))?;
                let names = found.iter().map(|at| header[*at].clone());
                let names: Vec<String> = names.chain(writer.form.columns()).collect();
                if let Some(twice) = twice(&names) {
                    let name = quote(twice);
                    return Err(Failure::Input(format!(
                        "{}: the output would have column {name} twice; --columns chooses the \
                         columns to repeat",
                        records.name()
                    )));
                }
                if let Some(sequence) = writer.form.task.sequence.as_ref()
                    && !header.contains(sequence)
                {
                    let (file, name) = (records.name(), quote(sequence));
                    note!("{file} has no column {name}: all rows are taken to be one sequence");
                }
                writer.sheet.header(names, rows.delimiter().unwrap_or(','))?;
                kept.insert(found)
            }
        };
        let in_sequence = |failure: Failure| match failure {
            Failure::Input(why) => {
                let name = records.name();
                Failure::Input(format!("{name}: the sequence that begins in line {begun}: {why}"))
            }
            other => other,
        };
        if begins {
            writer.end().map_err(in_sequence)?;
        }
        if begins || begun == 0 {
            begun = records.line();
        }
        let cells = kept.iter().map(|at| Cell::Text(rows.field(*at).into())).collect();
        writer.push(cells, element).map_err(|failure| match failure {
            Failure::Input(why) => records.refuse(why).into(),
            other => other,
        })?;
    }
    if kept.is_none() {
        return Err(Failure::Input(format!("{}: holds no rows", records.name())));
    }
    Ok(())
}

/// A name that comes twice.
fn twice(names: &[String]) -> Option<&String> {
    let mut seen = HashSet::new();
    names.iter().find(|name| !seen.insert(*name))
}

/// The places of the columns to repeat.
fn repeated(header: &[String], columns: Option<&[String]>) -> Result<Vec<usize>, String> {
    match columns {
        None => Ok((0..header.len()).collect()),
        Some([none]) if none == "none" && !header.contains(none) => Ok(Vec::new()),
        Some(columns) => {
            let find = |name: &String| {
                let place = header.iter().position(|column| column == name);
                let there = header.join(", ");
                place.ok_or(format!("--columns: has no column {name:?}; there are {there}"))
            };
            columns.iter().map(find).collect()
        }
    }
}

fn array<W: Write>(
    task: &SeriesTask,
    source: Source,
    options: &Options,
    writer: &mut Writer<W>,
) -> Result<(), Failure> {
    let name = source.name().to_string();
    let refuse = |why: String| Failure::Input(format!("{name}: {why}"));
    if options.columns.is_some() {
        return Err(refuse("--columns: an array has no other columns".into()));
    }
    let array = read::array(source)?;
    let width = task.inputs.len();
    let (steps, rows) = match array.shape[..] {
        [steps, rows, q] if q == width => (steps, rows),
        [steps, q] if q == width => (steps, 1),
        _ => {
            let shape = &array.shape;
            return Err(refuse(format!("has shape {shape:?}, expected [T, B, {width}]")));
        }
    };
    let numbers: Vec<f32> = match array.values {
        Values::Floats(x) => x,
        Values::Integers(x) => x.into_iter().map(|x| x as f32).collect(),
    };
    let names = ["sequence", "step"].map(String::from).into_iter().chain(writer.form.columns());
    writer.sheet.header(names.collect(), ',')?;
    for row in 0..rows {
        for step in 0..steps {
            let x = numbers[(step * rows + row) * width..][..width].to_vec();
            let cells = vec![Cell::Count(row as u64), Cell::Count(step as u64)];
            let place = |failure| match failure {
                Failure::Input(why) => refuse(format!("step {step} of sequence {row}: {why}")),
                other => other,
            };
            writer.push(cells, Element::Numbers(x)).map_err(place)?;
        }
        writer.end()?;
    }
    Ok(())
}
