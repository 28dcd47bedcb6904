package report

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// row is what a busy host is doing.
type row struct {
	host, step string
	began      time.Time
	told       time.Time // when it was last reported that it takes long
	progress   string
}

func (t *Terminal) row(host string) *row {
	for _, r := range t.busy {
		if r.host == host {
			return r
		}
	}
	return nil
}

func (t *Terminal) begin(e Event) {
	r := t.row(e.Host)
	if r == nil {
		r = &row{host: e.Host}
		t.busy = append(t.busy, r)
		slices.SortStableFunc(t.busy, func(a, b *row) int {
			return slices.Index(t.hosts, a.host) - slices.Index(t.hosts, b.host)
		})
	}
	r.step, r.began, r.told, r.progress = e.Step, e.Time, e.Time, ""
}

func (t *Terminal) idle(host string) {
	t.busy = slices.DeleteFunc(t.busy, func(r *row) bool { return r.host == host })
}

// print adds text and draws the live part again, in one write.
func (t *Terminal) print(text string) {
	if !t.o.Live {
		fmt.Fprint(t.out, text)
		return
	}
	var b strings.Builder
	if t.drawn > 0 {
		fmt.Fprintf(&b, "\r\x1b[%dA\x1b[J", t.drawn)
	}
	b.WriteString(text)
	rows := t.liveRows()
	for _, r := range rows {
		b.WriteString(r + "\n")
	}
	t.drawn = len(rows)
	fmt.Fprint(t.out, b.String())
}

// liveRows returns the busy hosts, as many as there is room for, each on one line.
func (t *Terminal) liveRows() []string {
	columns, height := t.o.Size()
	room := max(1, height/2)
	var rows []string
	for i, r := range t.busy {
		if i == room-1 && len(t.busy) > room {
			rows = append(rows, shorten(fmt.Sprintf("… and %d more", len(t.busy)-i), max(1, columns-1)))
			break
		}
		line := t.style.prefix(r.host) + pad(shorten(r.step, t.style.step), t.style.step) + " | " + joined(took(t.o.Now().Sub(r.began)), r.progress)
		rows = append(rows, t.style.ansi("36", shorten(line, max(1, columns-1))))
	}
	return rows
}

func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " ")
}
