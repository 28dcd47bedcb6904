package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/lab/sizing"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// The predictions of size match a real daemon: the filter's memory, the resident memory of the
// process, and the journal. (Files are compared in package sizing, the memory of Redis in redisstore.)
func TestSizeOfADaemon(t *testing.T) {
	const items, limit = 100_000, 48 << 20 // of resident memory, for the running batches
	for kind, filter := range map[string]string{"bloom": "capacity: 4000000, on_full: warn", "exact": "kind: exact", "timing": "kind: timing, expire: 720h"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir, args := t.TempDir(), []string{"size", "--json", "--start=false", "--kind=" + kind, fmt.Sprint("--items=", items)}
			if kind == "bloom" {
				args = append(args, "--capacity=4M", "--on-full=warn")
			}
			out, _ := processtest.MustCommand(t, dir, nil, args...)
			var plans []sizing.Plan
			if err := json.Unmarshal([]byte(out), &plans); err != nil || len(plans) != 1 {
				t.Fatalf("%v: %s", err, out)
			}
			plan := plans[0]
			p := processtest.Start(t, filepath.Join(dir, "data"), []string{"URIFILTER_FILTERS=[{id: 1, name: uri, " + filter + "}]"})
			var lines strings.Builder
			for i := range items {
				fmt.Fprintf(&lines, "https://example.com/%d\n", i)
			}
			if code, _, errOut := p.Lines(lines.String(), "filter"); code != 0 {
				t.Fatal(errOut)
			}
			_, text, err := p.Get("/api/v1/filters/uri")
			var got struct{ Bytes float64 }
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			if err != nil || got.Bytes < 0.9*float64(plan.Memory) || got.Bytes > 1.1*float64(plan.Memory) {
				t.Errorf("memory: the daemon tells of %.0f, predicted were %d", got.Bytes, plan.Memory)
			}
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
			if err != nil {
				t.Fatal(err)
			}
			var resident uint64
			if _, rest, ok := strings.Cut(string(status), "VmRSS:"); ok {
				_, _ = fmt.Sscan(rest, &resident)
			}
			if resident *= 1024; resident < plan.Memory/2 || resident > plan.Resident+limit {
				t.Errorf("resident memory: %d, predicted were %d", resident, plan.Resident)
			}
			journals, err := filepath.Glob(filepath.Join(dir, "data", "filters", "*", "journal-*"))
			if err != nil || len(journals) == 0 {
				t.Fatalf("journals: %v, %v", journals, err)
			}
			var bytes uint64
			for _, name := range journals {
				if file, err := os.Stat(name); err == nil {
					bytes += uint64(file.Size())
				}
			}
			if bytes > plan.Journal || bytes < items*plan.JournalItem {
				t.Errorf("journal: %d, predicted were %d for the entries and %d at most", bytes, items*plan.JournalItem, plan.Journal)
			}
		})
	}
}
