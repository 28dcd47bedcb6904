package report

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Machine is where something was measured.
type Machine struct {
	CPU   string  `json:"cpu"`
	Cores int     `json:"cores"`
	OS    string  `json:"os"` // with its version
	Go    string  `json:"go"`
	Sync  float64 `json:"sync_8k_ms"` // milliseconds until 8 KiB that were written are on the disk
}

// ThisMachine looks at the machine, and at the disk of a folder.
func ThisMachine(dir string) (Machine, error) {
	m := Machine{CPU: processor(), Cores: runtime.NumCPU(), OS: runtime.GOOS, Go: strings.Replace(runtime.Version(), "go", "Go ", 1)}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		version, _, _ := strings.Cut(strings.TrimSpace(string(release)), "-")
		m.OS = "Linux " + version
	}
	took, err := syncTime(dir)
	m.Sync = float64(took.Microseconds()) / 1000
	return m, err
}

// String is the machine in a few words.
func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, %s, %s, 8 KiB synced in %.2f ms", m.CPU, m.Cores, m.OS, m.Go, m.Sync)
}

// syncTime is the median time of a synced write of 8 KiB over what a file has already.
func syncTime(dir string) (time.Duration, error) {
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	var all []time.Duration
	block := make([]byte, 8<<10)
	for i := range 101 {
		start := time.Now()
		if _, err := f.WriteAt(block, 0); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		if i > 0 { // the first makes the file longer
			all = append(all, time.Since(start))
		}
	}
	return Median(all), nil
}

func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.Trim(name, "\t :\n")
		}
	}
	return runtime.GOARCH
}
