package crontab

import (
	"strings"
	"testing"
)

func TestOnCalendar(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0 0 1 * *":              "*-*-01 00:00:00",
		"@monthly":               "*-*-01 00:00:00",
		"@Weekly":                "Sun *-*-* 00:00:00",
		"*/15 * * * *":           "*-*-* *:00,15,30,45:00",
		"5 4-6/2 1,15 jan,JUL *": "*-01,07-01,15 04,06:05:00",
		"30 3 * * mon-fri":       "Mon,Tue,Wed,Thu,Fri *-*-* 03:30:00",
		"30 3 * * 7":             "Sun *-*-* 03:30:00",
		"30 3 * * 5-7":           "Sun,Fri,Sat *-*-* 03:30:00",
		"0  0\t29 2 *":           "*-02-29 00:00:00",
		"0 0 */2 * 1":            "Mon *-*-01,03,05,07,09,11,13,15,17,19,21,23,25,27,29,31 00:00:00",
		"0 0 * * */2":            "Sun,Tue,Thu,Sat *-*-* 00:00:00",
	} {
		w, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := w.OnCalendar(); got != want || err != nil {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
	if w, err := Parse("0 0 1 * 1"); err != nil {
		t.Error(err)
	} else if _, err := w.OnCalendar(); err == nil || !strings.Contains(err.Error(), "leave one of them *") {
		t.Errorf("day and weekday: %v", err)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                          "0 fields",
		"0 0 1 *":                   "4 fields",
		"0 0 1 * * root":            "6 fields",
		"@reboot":                   "1 fields",
		"60 0 1 * *":                `minute: "60": want 0 to 59`,
		"0 24 1 * *":                `hour: "24"`,
		"0 0 0 * *":                 `day: "0": want 1 to 31`,
		"0 0 1 13 *":                `month: "13"`,
		"0 0 1 * 8":                 `weekday: "8"`,
		"0 0 1 * someday":           `weekday: "someday"`,
		"+5 0 1 * *":                `minute: "+5"`,
		"0 5-3 1 * *":               "the range ends before it begins",
		"0 0 1/2 * *":               "want a step after * or after a range",
		"*/0 0 1 * *":               `step "0"`,
		"*/x 0 1 * *":               `step "x"`,
		"1,,2 0 1 * *":              `minute: ""`,
		"0 0 31 2,4,6 *":            "that day never comes",
		"0 0 1 * *\n* * * * * root": "11 fields",
	} {
		if w, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, %v, want %q in it", text, w, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("0 0 1 * *")
	f.Add("*/5,1-3/2 @ jan-dec sun 7")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := Parse(text)
		if err != nil {
			return
		}
		if strings.ContainsAny(w.String(), "\n\r%") {
			t.Errorf("%q: %q would break a crontab", text, w)
		}
		again, err := Parse(w.String())
		if err != nil || again != w {
			t.Errorf("%q: read again: %v, %v", text, again, err)
		}
	})
}
