use super::*;

fn seconds(format: TimeFormat, field: &str) -> f64 {
    format.parse(field).unwrap().seconds()
}

/// 2016-07-01 00:00 UTC.
const JULY: f64 = 1_467_331_200.0;

#[test]
fn forms_of_one_time() {
    let at = JULY + 13.0 * 3600.0 + 45.0 * 60.0;
    for (format, field) in [
        (TimeFormat::Iso, "2016-07-01 13:45"),
        (TimeFormat::Iso, "2016-07-01T13:45:00"),
        (TimeFormat::Iso, "2016-07-01t13:45:00.000z"),
        (TimeFormat::Iso, "2016-07-01T15:45:00+02:00"),
        (TimeFormat::Iso, "2016-07-01 15:45:00+02:00[Europe/Paris]"),
        (TimeFormat::Iso, "20160701T134500"),
        (TimeFormat::Iso, "2016/07/01 13:45:00"),
        (TimeFormat::Iso, "2016/7/1 1:45 PM"),
        (TimeFormat::DayFirst, "01/07/2016 13:45"),
        (TimeFormat::DayFirst, "1.7.2016 13:45:00"),
        (TimeFormat::DayFirst, " 01-07-2016 01:45:00 pm "),
        (TimeFormat::DayFirst, "01/07/2016 15:45 +0200"),
        (TimeFormat::MonthFirst, "7/1/2016 1:45PM"),
        (TimeFormat::MonthFirst, "07/01/2016T13:45Z"),
        (TimeFormat::Unix, "1467380700"),
        (TimeFormat::UnixMs, "1467380700000"),
    ] {
        assert_eq!(seconds(format, field), at, "{field}");
    }
    assert_eq!(seconds(TimeFormat::Iso, "2016-07-01"), JULY);
    assert_eq!(seconds(TimeFormat::MonthFirst, "7/1/2016 12:00 am"), JULY);
    assert_eq!(seconds(TimeFormat::MonthFirst, "7/1/2016 12:30 pm"), JULY + 45_000.0);
    assert_eq!(seconds(TimeFormat::Unix, "0.25"), 0.25);
    assert_eq!(seconds(TimeFormat::DayFirst, "01/01/1970 00:00:00.5"), 0.5);
    assert_eq!(seconds(TimeFormat::Iso, "1969-12-31 23:59:59"), -1.0);
}

#[test]
fn times_that_do_not_exist() {
    for (format, field) in [
        (TimeFormat::Iso, "2017-02-29"),
        (TimeFormat::Iso, "1900-02-29 00:00"),
        (TimeFormat::Iso, "2016-13-01"),
        (TimeFormat::Iso, "2016-07-01 24:00"),
        (TimeFormat::Iso, "2016-07-01 13:60"),
        (TimeFormat::Iso, "2016-07"),
        (TimeFormat::Iso, "yesterday"),
        (TimeFormat::Iso, ""),
        (TimeFormat::DayFirst, "29/02/2015"),
        (TimeFormat::DayFirst, "12/31/2016"),
        (TimeFormat::DayFirst, "1/7/16"),
        (TimeFormat::DayFirst, "1/7/2016/4"),
        (TimeFormat::DayFirst, "1/7-2016"),
        (TimeFormat::DayFirst, "+1/07/2016"),
        (TimeFormat::DayFirst, "1/7/2016 13:00 PM"),
        (TimeFormat::DayFirst, "1/7/2016 0:10 AM"),
        (TimeFormat::DayFirst, "1/7/2016 1:2:3:4"),
        (TimeFormat::DayFirst, "1/7/2016 13:45:00.x"),
        (TimeFormat::DayFirst, "1/7/2016 13:45+99:00"),
        (TimeFormat::DayFirst, "\u{661}/07/2016"),
        (TimeFormat::MonthFirst, "31/12/2016"),
        (TimeFormat::Unix, "2016-07-01"),
        (TimeFormat::Unix, "1467380700000"),
        (TimeFormat::Unix, "1e300"),
        (TimeFormat::Unix, "nan"),
    ] {
        let why = format.parse(field).unwrap_err();
        assert!(why.contains(&format!("is not a time that exists, written as {format} ")), "{why}");
    }
    // Leap days that exist.
    for field in ["2016-02-29", "2000-02-29 12:00"] {
        TimeFormat::Iso.parse(field).unwrap();
    }
}

#[test]
fn phases_of_cycles() {
    let at = |field: &str, cycle| TimeFormat::Iso.parse(field).unwrap().phase(cycle);
    assert_eq!(at("2016-07-01 06:00", Cycle::HourOfDay), 0.25);
    // The clock on the wall counts, whatever its offset from UTC.
    assert_eq!(at("2016-07-01 06:00+05:00", Cycle::HourOfDay), 0.25);
    assert_eq!(at("2026-11-16", Cycle::DayOfWeek), 0.0); // a Monday
    assert_eq!(at("2026-11-22 12:00", Cycle::DayOfWeek), 6.5 / 7.0);
    assert_eq!(at("2016-12-31", Cycle::DayOfYear), 365.0 / 366.0);
    assert_eq!(at("2017-12-31 12:00", Cycle::DayOfYear), 364.5 / 365.0);
    let [sin, cos] = TimeFormat::Iso.parse("2016-07-01 06:00").unwrap().on_circle(Cycle::HourOfDay);
    assert!((sin - 1.0).abs() < 1e-7 && cos.abs() < 1e-7);
}

#[test]
fn cycles_that_data_show() {
    let (hour, day) = (3600.0, 86_400.0);
    use Cycle::{DayOfWeek, DayOfYear, HourOfDay};
    for (step, span, shown) in [
        (hour, 730.0 * day, &[HourOfDay, DayOfWeek, DayOfYear][..]),
        (hour, 30.0 * day, &[HourOfDay, DayOfWeek]),
        (60.0, 2.0 * day, &[HourOfDay]),
        (1.0, 5.0 * hour, &[]),
        (day, 3000.0 * day, &[DayOfWeek, DayOfYear]),
        (7.0 * day, 3000.0 * day, &[DayOfYear]),
        (30.4 * day, 3000.0 * day, &[DayOfYear]),
        (365.0 * day, 30_000.0 * day, &[]),
    ] {
        assert_eq!(Cycle::shown_by(step, span), shown, "{step} {span}");
    }
}
