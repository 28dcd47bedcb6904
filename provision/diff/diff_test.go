package diff

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

func TestUnified(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, old, new, want string }{
		{"equal", "a\n", "a\n", ""},
		{"new file", "", "a\nb\n", "--- f\n+++ f\n@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"file goes", "a\n", "", "--- f\n+++ f\n@@ -1 +0,0 @@\n-a\n"},
		{"one line", "a\nb\nc\n", "a\nx\nc\n", "--- f\n+++ f\n@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"},
		{"line end", "a", "a\n", "--- f\n+++ f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"},
		{
			"far apart", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n", "x\n2\n3\n4\n5\n6\n7\n8\n9\ny\n",
			"--- f\n+++ f\n@@ -1,4 +1,4 @@\n-1\n+x\n 2\n 3\n 4\n@@ -7,4 +7,4 @@\n 7\n 8\n 9\n-10\n+y\n",
		},
	} {
		if got := Unified("f", c.old, c.new); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestMasked(t *testing.T) {
	t.Parallel()
	got := Masked("f", "a: 1\ntoken: oldoldold\n", "a: 2\ntoken: newnewnew\n")
	want := "--- f\n+++ f\n@@ -1,2 +1,2 @@\n-a: 1\n-token: (secret)\n+a: 2\n+token: (secret, changed)\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A diff, applied to the old text, gives the new one.
func TestDiffsApply(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 500 {
		old, new := text(random), text(random)
		if i%3 == 0 {
			new = old[:len(old)/2] + "inserted\n" + old[len(old)/2:]
		}
		if i == 1 { // more than the limit of edits
			old, new = strings.Repeat("a\nb\nc\n", 700), strings.Repeat("d\nb\ne\n", 700)
		}
		shown := Unified("f", old, new)
		if got := apply(t, old, shown); got != new {
			t.Fatalf("from %q by\n%s\ngot %q, want %q", old, shown, got, new)
		}
	}
}

// apply does what patch(1) does, and is stricter: every line and number must be right.
func apply(t *testing.T, old, shown string) string {
	t.Helper()
	if shown == "" {
		return old
	}
	shown = strings.ReplaceAll(shown, "\n\\ No newline at end of file\n", "\x00\n")
	left, at := strings.SplitAfter(old, "\n"), 1 // at is the line number of left[0]
	var made []string
	for _, line := range strings.SplitAfter(shown, "\n")[2:] {
		text, cut := strings.CutSuffix(strings.TrimSuffix(line, "\n"), "\x00")
		if !cut {
			text += "\n"
		}
		switch {
		case line == "":
		case line[0] == '@':
			from, to := hunkStart(t, line)
			for at < from {
				made, left, at = append(made, left[0]), left[1:], at+1
			}
			if to != len(made)+1 {
				t.Fatalf("%s after %d lines", line, len(made))
			}
		case line[0] == '+':
			made = append(made, text[1:])
		default:
			if len(left) == 0 || left[0] != text[1:] {
				t.Fatalf("line %d is not %q in\n%s", at, text[1:], shown)
			}
			if line[0] == ' ' {
				made = append(made, left[0])
			}
			left, at = left[1:], at+1
		}
	}
	return strings.Join(append(made, left...), "")
}

// hunkStart reads "@@ -1,2 +3 @@" and returns the first lines in both texts.
func hunkStart(t *testing.T, line string) (from, to int) {
	t.Helper()
	fields := strings.Fields(line)
	for i, n := range []*int{&from, &to} {
		first, length, _ := strings.Cut(fields[i+1][1:], ",")
		value, err := strconv.Atoi(first)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		*n = value
		if length == "0" { // an empty range names the line before it
			*n++
		}
	}
	return from, to
}

func text(random *rand.Rand) string {
	var b strings.Builder
	for range 1 + random.IntN(30) {
		fmt.Fprintf(&b, "line %d\n", random.IntN(9))
	}
	if random.IntN(4) == 0 {
		b.WriteString("no end")
	}
	return b.String()
}
