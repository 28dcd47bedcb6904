package powerloss

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hex is a text as strace writes it when it escapes every byte.
func hex(text string) string {
	var out strings.Builder
	for _, b := range []byte(text) {
		const digits = "0123456789abcdef"
		out.WriteString(`\x` + digits[b>>4:b>>4+1] + digits[b&15:b&15+1])
	}
	return out.String()
}

// read passes lines to ReadTrace. ROOT in them is a folder, and text between ' is escaped.
func read(t *testing.T, lines ...string) ([]Entry, error) {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	var text strings.Builder
	for _, line := range lines {
		for i, part := range strings.Split(strings.ReplaceAll(line, "ROOT", "/root-of-test"), "'") {
			if i%2 == 1 {
				part = hex(part)
			}
			text.WriteString(part)
		}
		text.WriteByte('\n')
	}
	if err := os.WriteFile(trace, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return ReadTrace(trace, "/root-of-test")
}

// The call that a thread was in when it was killed is left out, however strace reports it; what
// other threads did meanwhile, and afterwards, is not.
func TestTraceOfTheKilled(t *testing.T) {
	const opened = `10 openat(AT_FDCWD<'/'>, "'ROOT/file'", O_RDWR|O_CREAT|O_CLOEXEC, 0600) = 3<'ROOT/file'>`
	const written = `11 pwrite64(3<'ROOT/file'>, "'abc'", 3, 0) = 3`
	for name, killed := range map[string][]string{
		"before its result":            {`10 fsync(3<'ROOT/file'>) = ?`},
		"after others came between":    {`10 fsync(3<'ROOT/file'> <unfinished ...>`, `10 <... fsync resumed>) = ?`},
		"and not seen again":           {`10 fsync(3<'ROOT/file'> <unfinished ...>`},
		"detached":                     {`10 fsync(3<'ROOT/file'> <detached ...>`},
		"detached, of an unknown call": {`10 ???( <detached ...>`},
		"detached when it was resumed": {`10 fsync(3<'ROOT/file'> <unfinished ...>`, `10 <... fsync resumed> <detached ...>`},
		"with its end":                 {`10 ???( <detached ...>`, `10 +++ killed by SIGKILL +++`},
	} {
		entries, err := read(t, append(append([]string{opened}, killed...), written)...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(entries) != 2 || entries[0].Op.Path != "/root-of-test/file" || string(entries[1].Op.Data) != "abc" || !entries[1].Done {
			t.Errorf("%s: got %+v, want the file and what was written to it", name, entries)
		}
	}
	if _, err := read(t, opened, `10 nonsense`); err == nil {
		t.Error("a line that is no call was taken")
	}
}
