package size

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/lab/sizing"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/commandtest"
)

func ask(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = commandtest.Program{New}.Run(t.Context(), append([]string{"size"}, args...), strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

func TestSizeOfEachKind(t *testing.T) {
	code, out, errOut := ask(t, "--items", "15e4", "--json", "--temp-dir", t.TempDir())
	var plans []sizing.Plan
	if err := json.Unmarshal([]byte(out), &plans); code != 0 || err != nil || len(plans) != 5 {
		t.Fatalf("got %d, %v, %d plans, %s", code, err, len(plans), errOut)
	}
	for _, p := range plans {
		if p.Items != 150_000 || p.Memory == 0 || p.File == 0 || p.Start <= 0 || p.StartLongest <= p.Start {
			t.Errorf("got %+v", p)
		}
	}
	if b := plans[0].Bits; b == nil || b.K != 16 || b.Capacity != 150_000 || b.Layers != 1 || b.FalsePositives > 1e-4 {
		t.Errorf("bit-map: got %+v", b)
	}
	code, out, _ = ask(t, "--items", "1G", "--start=false", "--kind", "bloom,exact,timing", "--mirror-bytes", "2GiB", "--json")
	if err := json.Unmarshal([]byte(out), &plans); code != 0 || err != nil || len(plans) != 3 {
		t.Fatalf("mirrors: got %d, %v, %s", code, err, out)
	}
	for i, want := range []uint64{268_435_456, 113_025_455, 1_000_000_000} {
		if p := plans[i]; p.Mirrored != want || i < 2 && p.Mirror != 2<<30 || i == 2 && p.Mirror != p.Memory {
			t.Errorf("mirror of %s: got %d bytes, %d items, want %d", p.Kind, p.Mirror, p.Mirrored, want)
		}
	}
	code, out, _ = ask(t, "--items", "10M", "--start=false", "--kind", "bloom")
	if !strings.Contains(out, "redis.mirror_bytes") || !strings.Contains(out, "\n  items in it") {
		t.Errorf("no word of a mirror: %d, %s", code, out)
	}
	code, out, _ = ask(t, "--items", "2M", "--capacity", "100k", "--kind", "bloom", "--start=false")
	if code != 0 || !strings.Contains(out, "\n  layers") || strings.Contains(out, "start") {
		t.Errorf("one that grows: got %d, %s", code, out)
	}
	code, out, _ = ask(t, "--items", "2M", "--capacity", "100k", "--kind", "bloom", "--start=false", "--on-full", "warn")
	if code != 0 || !strings.Contains(out, "bloom: more items than it is made for") {
		t.Errorf("one that does not: got %d, %s", code, out)
	}
}

func TestSizeOfFingerprints(t *testing.T) {
	code, out, errOut := ask(t, "--items", "20M", "--kind", "bloom,exact", "--layout", "fingerprints", "--error-rate", "1e-6", "--temp-dir", t.TempDir(), "--json")
	var plans []sizing.Plan
	if err := json.Unmarshal([]byte(out), &plans); code != 0 || err != nil || len(plans) != 2 {
		t.Fatalf("got %d, %v, %s", code, err, errOut)
	}
	p := plans[0]
	if p.Layout != "fingerprints" || p.Memory+p.File+p.Journal+p.Archive != 0 || p.Bits != nil || p.Start != 0 || plans[1].Start == 0 {
		t.Errorf("got %+v", p)
	}
	if f := p.Prints; f == nil || f.Capacity != 20e6 || f.MaxCapacity != 18_014_398_509 || f.BytesPerItem < 4.6 || f.BytesPerItem > 5.4 {
		t.Errorf("got %+v", f)
	}
	if p.Mistaken != 20e6/(65_536.*(1<<32)) || p.Mirror != 64<<20 || p.Mirrored != plans[1].Mirrored {
		t.Errorf("rate %v, mirror of %d bytes with %d items", p.Mistaken, p.Mirror, p.Mirrored)
	}
	code, out, _ = ask(t, "--items", "2M", "--layout", "fingerprints", "--start=false")
	if code != 0 || !strings.Contains(out, "bloom, fingerprints") || !strings.Contains(out, "capacity, at most") {
		t.Errorf("got %d, %s", code, out)
	}
}

// The least value of each setting that a daemon takes is taken here, too.
func TestSizeTakesTheLeastSettings(t *testing.T) {
	if code, _, errOut := ask(t, "--items", "1M", "--start=false", "--checkpoint-bytes", "64KiB", "--mirror-bytes", "4MiB"); code != 0 {
		t.Errorf("got %d, %s", code, errOut)
	}
}

func TestSizeRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"--kind \"blom\": want bloom or":                                 {"--items", "1M", "--kind", "blom"},
		"want a whole number of items from 1":                            {"--items", "1.5"},
		"--error-rate 0: want more than 0":                               {"--items", "1M", "--error-rate", "0"},
		"--error-rate 0.9: want":                                         {"--items", "1M", "--error-rate", "0.9"},
		"--layout \"print\": want fingerprints":                          {"--items", "1M", "--layout", "print"},
		"--capacity 50000000000: want 18014398509 at most":               {"--items", "50G", "--layout", "fingerprints", "--error-rate", "1e-6"},
		"--on-full \"burst\": want grow":                                 {"--items", "1M", "--on-full", "burst"},
		"--id-bytes 0: want 1 to 1024":                                   {"--items", "1M", "--id-bytes", "0"},
		"--mirror-bytes 1MiB: want 0 for whole mirrors, or 4MiB to 1TiB": {"--items", "1M", "--mirror-bytes", "1MiB"},
		"--mirror-bytes 2TiB: want 0 for whole mirrors":                  {"--items", "1M", "--mirror-bytes", "2TiB"},
		"--mirror-bytes \"2G\": want bytes, or":                          {"--items", "1M", "--mirror-bytes", "2G"},
		"--checkpoint-bytes \"64MB\": want bytes, or":                    {"--items", "1M", "--checkpoint-bytes", "64MB"},
		"--checkpoint-bytes 0: want 64KiB to 1TiB":                       {"--items", "1M", "--checkpoint-bytes", "0"},
		"--checkpoint-bytes 65535: want 64KiB to 1TiB":                   {"--items", "1M", "--checkpoint-bytes", "65535"},
		"--checkpoint-bytes 2TiB: want 64KiB to 1TiB":                    {"--items", "1M", "--checkpoint-bytes", "2TiB"},
		`required flag(s) "items" not set`:                               nil,
		"unknown command \"5\" for \"urifilter":                          {"5", "--items", "1M"},
	} {
		if code, _, errOut := ask(t, args...); code != 2 || !strings.Contains(errOut, want) {
			t.Errorf("%q: got %d, %q, want %q", args, code, errOut, want)
		}
	}
}
