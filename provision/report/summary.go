package report

import (
	"cmp"
	"fmt"
	"strings"
)

// summary returns the table at the end, what went wrong, and what to do next.
func (s *style) summary(target string, sum Summary) string {
	var b strings.Builder
	b.WriteString("\n")
	s.table(&b, sum)
	for _, h := range sum.Hosts {
		if h.Error == "" || h.Status == Interrupted {
			continue
		}
		where := h.Host
		if h.Step != "" {
			where += ": " + h.Step
		}
		fmt.Fprintf(&b, "\n%s\n%s", s.ansi("1", where), indented(clean(h.Error)))
	}
	if len(sum.Warnings) > 0 {
		fmt.Fprintf(&b, "\n%s\n", s.ansi("1;33", "warnings"))
		for _, w := range sum.Warnings {
			b.WriteString(indented(clean(w.line())))
		}
	}
	fmt.Fprintf(&b, "\n%s\n", s.verdict(target, sum))
	if sum.Next != "" {
		fmt.Fprintf(&b, "next: %s\n", sum.Next)
	}
	return b.String()
}

func (w Warning) line() string {
	switch {
	case len(w.Hosts) == 0:
		return w.Text
	case len(w.Hosts) > 4:
		return fmt.Sprintf("%s and %d more: %s", strings.Join(w.Hosts[:3], ", "), len(w.Hosts)-3, w.Text)
	}
	return strings.Join(w.Hosts, ", ") + ": " + w.Text
}

// table writes a line for each host, without some columns if there is no room for all.
func (s *style) table(b *strings.Builder, sum Summary) {
	changed := "changed"
	if sum.Plan {
		changed = "to change"
	}
	name := len("host")
	for _, h := range sum.Hosts {
		name = max(name, width(h.Host))
	}
	wide := s.columns == 0 || name+len("  would change  to change    ok  failed  1 min 00 s") <= s.columns
	if !wide {
		name = min(name, max(s.host, s.columns-len("  would change  to change")))
	}
	row := func(host, result, changes, ok, failed, time string) {
		line := pad(shorten(host, name), name) + "  " + result + "  " + changes
		if wide {
			line += fmt.Sprintf("  %4s  %6s  %s", ok, failed, time)
		}
		b.WriteString(line + "\n")
	}
	row("host", pad("result", widestStatus), changed, "ok", "failed", "took")
	for _, h := range sum.Hosts {
		changes, ok, failed, time := fmt.Sprint(h.Changed), fmt.Sprint(h.OK), fmt.Sprint(h.Failed), took(seconds(h.Seconds))
		if h.OK+h.Changed+h.Failed+h.Skipped == 0 {
			changes, ok, failed, time = "-", "-", "-", "-"
		}
		row(h.Host, s.paint(h.Status, pad(string(h.Status), widestStatus)), fmt.Sprintf("%*s", len(changed), changes), ok, failed, time)
	}
}

// verdict returns the last line that most people read.
func (s *style) verdict(target string, sum Summary) string {
	target = cmp.Or(target, "run")
	counts := map[Status]int{}
	changes := 0
	for _, h := range sum.Hosts {
		counts[h.Status]++
		changes += h.Changed
	}
	var parts []string
	for _, status := range []Status{Failed, Unreachable, Interrupted, NotStarted} {
		if n := counts[status]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, status))
		}
	}
	time := took(seconds(sum.Seconds))
	switch {
	case len(parts) > 0:
		return s.paint(Failed, fmt.Sprintf("%s is not done (exit code %d): of %s %s", target, sum.Code, Count(len(sum.Hosts), "host"), strings.Join(parts, ", "))) + ", " + time
	case sum.Plan && changes > 0:
		return fmt.Sprintf("%s: %s on %s, none made; %s", target, Count(changes, "change"), Count(counts[WouldChange], "host"), time)
	case changes > 0:
		return fmt.Sprintf("%s: done, %s on %s, %s", target, Count(changes, "change"), Count(counts[Changed], "host"), time)
	}
	return fmt.Sprintf("%s: nothing to change on %s, %s", target, Count(len(sum.Hosts), "host"), time)
}

// Count returns a number of things in words, such as 3 hosts.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ") + "\n"
}
