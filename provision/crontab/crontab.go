// Package crontab reads the times of a crontab and writes them as systemd does. It is as strict as
// Debian's cron; libraries accept times that this cron refuses (5/10, ?) and refuse some that it
// accepts (7 for Sunday). It runs nothing.
package crontab

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Time is a time in the five fields of a crontab.
type Time struct {
	text                              string
	minute, hour, day, month, weekday uint64 // bit n: the value n
	anyDay, anyWeekday                bool   // the field begins with *
}

// field describes the values of one of the five fields.
type field struct {
	name     string
	low, top int
	names    []string // of the values, beginning with low
}

var (
	months   = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
)

func fields() []field {
	return []field{{"minute", 0, 59, nil}, {"hour", 0, 23, nil}, {"day", 1, 31, nil}, {"month", 1, 12, months}, {"weekday", 0, 7, weekdays}}
}

func nicknames() map[string]string {
	return map[string]string{
		"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
		"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
	}
}

// Parse reads minute, hour, day, month and weekday in the format of crontab(5), or a word such as
// @monthly. Times that never occur are refused.
func Parse(text string) (Time, error) {
	bad := func(format string, args ...any) (Time, error) {
		return Time{}, fmt.Errorf("schedule.when %q: "+format, append([]any{text}, args...)...)
	}
	words := strings.Fields(text)
	if len(words) == 1 {
		if long, ok := nicknames()[strings.ToLower(words[0])]; ok {
			words = strings.Fields(long)
		}
	}
	if len(words) != 5 {
		return bad("%d fields: want minute, hour, day, month and weekday, such as 0 0 1 * *", len(words))
	}
	w := Time{text: strings.Join(words, " "), anyDay: words[2][0] == '*', anyWeekday: words[4][0] == '*'}
	for i, into := range []*uint64{&w.minute, &w.hour, &w.day, &w.month, &w.weekday} {
		set, err := fields()[i].parse(words[i])
		if err != nil {
			return bad("%w", err)
		}
		*into = set
	}
	if w.weekday&(1<<7) != 0 { // Sunday is 0 and 7
		w.weekday = w.weekday&^(1<<7) | 1
	}
	if !w.comes() {
		return bad("that day never comes")
	}
	return w, nil
}

func (w Time) String() string { return w.text }

func (f field) parse(text string) (set uint64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		s, err := f.part(part)
		if err != nil {
			return 0, err
		}
		set |= s
	}
	return set, nil
}

// part reads *, a, a-b, each perhaps with /step.
func (f field) part(text string) (set uint64, err error) {
	span, stepText, stepped := strings.Cut(text, "/")
	step := 1
	if stepped {
		if step, err = strconv.Atoi(stepText); err != nil || step < 1 || step > f.top {
			return 0, fmt.Errorf("%s: step %q: want 1 to %d", f.name, stepText, f.top)
		}
	}
	from, to := f.low, f.top
	if span != "*" {
		first, second, isRange := strings.Cut(span, "-")
		if from, err = f.value(first); err != nil {
			return 0, err
		}
		to = from
		switch {
		case isRange:
			if to, err = f.value(second); err != nil {
				return 0, err
			}
		case stepped:
			return 0, fmt.Errorf("%s: %q: want a step after * or after a range", f.name, text)
		}
		if to < from {
			return 0, fmt.Errorf("%s: %q: the range ends before it begins", f.name, text)
		}
	}
	if span == "*" && f.name == "weekday" {
		to = 6
	}
	for v := from; v <= to; v += step {
		set |= 1 << v
	}
	return set, nil
}

func (f field) value(text string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.low + i, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.low || n > f.top || strings.Trim(text, "0123456789") != "" {
		return 0, fmt.Errorf("%s: %q: want %d to %d", f.name, text, f.low, f.top)
	}
	return n, nil
}

// comes reports whether such a day exists in any year.
func (w Time) comes() bool {
	if !w.anyWeekday { // cron accepts either of the two
		return true
	}
	for m, days := range []int{31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31} {
		if w.month&(1<<(m+1)) != 0 && bits.TrailingZeros64(w.day) <= days {
			return true
		}
	}
	return false
}

// OnCalendar returns the same time for a systemd timer. Systemd cannot express that either the day
// of the month or the weekday must match, which is what a crontab with both means.
func (w Time) OnCalendar() (string, error) {
	if !w.anyDay && !w.anyWeekday {
		return "", fmt.Errorf("schedule.when %q: a timer cannot have both a day and a weekday, of which a crontab takes either: leave one of them *", w.text)
	}
	f := fields()
	days := ""
	if all := f[4].all() &^ (1 << 7); w.weekday != all {
		var names []string
		for i, name := range weekdays {
			if w.weekday&(1<<i) != 0 {
				names = append(names, strings.ToUpper(name[:1])+name[1:])
			}
		}
		days = strings.Join(names, ",") + " "
	}
	return fmt.Sprintf("%s*-%s-%s %s:%s:00", days, list(w.month, f[3]), list(w.day, f[2]), list(w.hour, f[1]), list(w.minute, f[0])), nil
}

func (f field) all() uint64 { return 1<<(f.top+1) - 1<<f.low }

// list returns the values of a set as systemd writes them.
func list(set uint64, f field) string {
	if set == f.all() {
		return "*"
	}
	var values []string
	for v := f.low; v <= f.top; v++ {
		if set&(1<<v) != 0 {
			values = append(values, fmt.Sprintf("%02d", v))
		}
	}
	return strings.Join(values, ",")
}
