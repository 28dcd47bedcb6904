// Package diff shows people what will change in a text, in the form of `diff -u`, and
// keeps secrets out of what it shows. It applies no diff and reads no file.
package diff

import (
	"fmt"
	"strings"

	"github.com/cr-clawer/urifilter/provision/secret"
)

// around is how many unchanged lines are shown before and after a change.
const around = 3

// limit is how many edits are looked for before the middle is shown as replaced as a
// whole; it bounds time and memory (8 MB) for texts that have nothing in common.
const limit = 1000

// Unified compares two texts; "" when they are equal. A text that is not there is "".
func Unified(name, old, new string) string {
	if old == new {
		return ""
	}
	return unified(name, lines(old), lines(new))
}

// Masked is Unified for texts with secrets: their values are hidden as by
// [secret.Hide], and a value that changes is shown to change.
func Masked(name, old, new string, keys ...string) string {
	if old == new {
		return ""
	}
	old, new = secret.HidePair(old, new, keys...)
	return Unified(name, old, new)
}

// lines cuts text after each line end, so that a last line without one differs from
// the same line with one.
func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		all = append(all, line)
	}
	return all
}

// edit is a line that stays (' '), goes ('-') or comes ('+').
type edit struct {
	kind byte
	line string
}

func unified(name string, a, b []string) string {
	edits := compare(a, b)
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", name, name)
	for from := 0; from < len(edits); {
		if edits[from].kind == ' ' {
			from++
			continue
		}
		to := hunkEnd(edits, from)
		writeHunk(&out, edits, max(0, from-around), min(len(edits), to+around))
		from = min(len(edits), to+around)
	}
	return out.String()
}

// hunkEnd is the end of the last change that belongs to the hunk of the change at
// from: the gaps between its changes are shown as a whole.
func hunkEnd(edits []edit, from int) int {
	end := from
	for i := from; i < len(edits) && i-end <= 2*around; i++ {
		if edits[i].kind != ' ' {
			end = i + 1
		}
	}
	return end
}

func writeHunk(out *strings.Builder, edits []edit, from, to int) {
	startA, startB := count(edits[:from])
	lenA, lenB := count(edits[from:to])
	fmt.Fprintf(out, "@@ -%s +%s @@\n", span(startA, lenA), span(startB, lenB))
	for _, e := range edits[from:to] {
		out.WriteByte(e.kind)
		out.WriteString(e.line)
		if !strings.HasSuffix(e.line, "\n") {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// count is how many lines of the old and of the new text edits cover.
func count(edits []edit) (a, b int) {
	for _, e := range edits {
		if e.kind != '+' {
			a++
		}
		if e.kind != '-' {
			b++
		}
	}
	return a, b
}

// span is a range of lines as diff writes it: the first counts from 1, a length of 1
// is left out, and an empty range names the line before it.
func span(before, length int) string {
	switch length {
	case 0:
		return fmt.Sprintf("%d,0", before)
	case 1:
		return fmt.Sprint(before + 1)
	}
	return fmt.Sprintf("%d,%d", before+1, length)
}
