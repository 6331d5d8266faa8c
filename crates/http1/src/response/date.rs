//! HTTP dates: written as IMF-fixdate; the two older forms are also read (RFC 9110 section 5.6.7).

const WEEKDAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Formats seconds since 1970 as `Sun, 06 Nov 1994 08:49:37 GMT`, up to the year 9999.
pub fn http_date(unix_s: u64) -> [u8; 29] {
    const LAST_S: u64 = 253_402_300_799;
    let unix_s = unix_s.min(LAST_S);
    let (days, second_of_day) = (unix_s / 86_400, unix_s % 86_400);
    let (year, month, day) = civil_date(days);
    let mut date = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    date[..3].copy_from_slice(WEEKDAYS[(days % 7) as usize]);
    write_two(&mut date[5..7], day);
    date[8..11].copy_from_slice(MONTHS[(month - 1) as usize]);
    write_two(&mut date[12..14], year / 100);
    write_two(&mut date[14..16], year % 100);
    write_two(&mut date[17..19], second_of_day / 3600);
    write_two(&mut date[20..22], second_of_day / 60 % 60);
    write_two(&mut date[23..25], second_of_day % 60);
    date
}

/// Parses a date in one of HTTP's three forms to seconds since 1970; `None` for anything else and for dates before
/// 1970.
pub fn parse_date(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (day, month, year, time) = match words.as_slice() {
        // Sun, 06 Nov 1994 08:49:37 GMT
        [weekday, day, month, year, time, "GMT"] if weekday.ends_with(',') && year.len() == 4 => {
            (*day, *month, year.parse().ok()?, *time)
        }
        // Sunday, 06-Nov-94 08:49:37 GMT
        [weekday, date, time, "GMT"] if weekday.ends_with(',') => {
            let mut parts = date.splitn(3, '-');
            let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
            if year.len() != 2 {
                return None;
            }
            let year: u64 = year.parse().ok()?;
            // A two-digit year far in the future is in the past; files have dates since 1970.
            (day, month, if year < 70 { 2000 + year } else { 1900 + year }, *time)
        }
        // Sun Nov  6 08:49:37 1994
        [_, month, day, time, year] if year.len() == 4 => (*day, *month, year.parse().ok()?, *time),
        _ => return None,
    };
    let month = MONTHS.iter().position(|name| name.as_slice() == month.as_bytes())? as u64 + 1;
    let day: u64 = day.parse().ok()?;
    let mut parts = time.splitn(3, ':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    // A minute may have a leap second.
    if year < 1970 || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    if !(1..=31).contains(&day) {
        return None;
    }
    let days = days_since_1970(year, month, day);
    // Rejects days that a shorter month does not have.
    (civil_date(days) == (year, month, day))
        .then(|| days * 86_400 + hour * 3600 + minute * 60 + second)
}

/// The inverse of `civil_date`.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn write_two(place: &mut [u8], number: u64) {
    place[0] = b'0' + (number / 10 % 10) as u8;
    place[1] = b'0' + (number % 10) as u8;
}

/// Year, month and day of a day since 1970. Years are counted from March on, so that a leap day is a year's last.
fn civil_date(days: u64) -> (u64, u64, u64) {
    // Days since the first of March of the year 0; 400 years have 146,097 days.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Five months from March on have 153 days.
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::{http_date, parse_date};

    #[test]
    fn known_dates() {
        for (unix_s, date) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_709_164_799, "Wed, 28 Feb 2024 23:59:59 GMT"),
            (1_709_251_199, "Thu, 29 Feb 2024 23:59:59 GMT"),
            (1_735_689_599, "Tue, 31 Dec 2024 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(std::str::from_utf8(&http_date(unix_s)), Ok(date));
        }
    }

    #[test]
    fn three_forms_are_read() {
        for date in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse_date(date.as_bytes()), Some(784_111_777), "{date}");
        }
        for wrong in [
            "",
            "yesterday",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 99999999999999999999 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 18446744073709551615 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sun, 06 Nov 94 08:49:37 GMT",
        ] {
            assert_eq!(parse_date(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for day in 0..60_000 {
            let unix_s = day * 86_400 + day % 86_400;
            assert_eq!(parse_date(&http_date(unix_s)), Some(unix_s));
        }
    }
}
