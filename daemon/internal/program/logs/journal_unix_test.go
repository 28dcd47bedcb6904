//go:build unix

package logs

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestJournalLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(NewJournalHandler(&out, slog.LevelInfo))
	log.Debug("not asked for")
	log.Info("ready", "filter", "uri")
	log.With("filter", "ip").Warn("two\nlines", "level", "its own")
	log.WithGroup("store").Error("gone", "time", "its own")
	want := "<6>msg=ready filter=uri\n<4>msg=\"two\\nlines\" filter=ip level=\"its own\"\n<3>msg=gone store.time=\"its own\"\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", &out, want)
	}
}

func TestToJournal(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "stream"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var stat syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	for value, is := range map[string]bool{
		"":                                       false,
		fmt.Sprintf("%d:%d", stat.Dev, stat.Ino): true,
		fmt.Sprintf("%d:%d", stat.Dev, stat.Ino+1): false, // inherited, but standard error goes elsewhere
	} {
		t.Setenv("JOURNAL_STREAM", value)
		if ToJournal(f) != is {
			t.Errorf("JOURNAL_STREAM=%s: %t, want %t", value, !is, is)
		}
	}
}
