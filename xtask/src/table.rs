//! Columns that line up.

/// Where a column's text stands in its width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// For words.
    Left,
    /// For figures, so that their digits stand under each other.
    Right,
}

/// Renders rows as aligned columns, two spaces apart, each line indented by two and free of trailing spaces.
///
/// A row with fewer cells than `columns` is filled with empty ones; more cells are left out.
pub fn render(columns: &[Align], rows: &[Vec<String>]) -> String {
    let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
    let widths: Vec<usize> = (0..columns.len())
        .map(|column| {
            rows.iter()
                .map(|row| cell(row, column).chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, align) in columns.iter().enumerate() {
            let text = cell(row, column);
            let padding = " ".repeat(widths[column] - text.chars().count());
            line.push_str("  ");
            match align {
                Align::Left => line.extend([text, padding]),
                Align::Right => line.extend([padding, text]),
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_left_and_figures_right() {
        let rows = [
            vec!["step".into(), "time".into()],
            vec!["format".into(), "0.4 s".into()],
            vec!["tests".into(), "112.0 s".into(), "left out".into()],
            vec!["dépendances".into()],
        ];
        assert_eq!(
            render(&[Align::Left, Align::Right], &rows),
            "\x20 step            time\n\
             \x20 format         0.4 s\n\
             \x20 tests        112.0 s\n\
             \x20 dépendances\n"
        );
    }

    #[test]
    fn no_rows_give_no_text() {
        assert_eq!(render(&[Align::Left], &[]), "");
    }
}
