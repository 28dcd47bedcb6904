package report

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Machine describes the machine on which something was measured.
type Machine struct {
	CPU   string  `json:"cpu"`
	Cores int     `json:"cores"`
	OS    string  `json:"os"` // with its version
	Go    string  `json:"go"`
	Sync  float64 `json:"sync_8k_ms"` // milliseconds until 8 KiB are written and synced to disk
}

// ThisMachine describes this machine, with the disk of a folder.
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

// String describes the machine in a few words.
func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, %s, %s, 8 KiB synced in %.2f ms", m.CPU, m.Cores, m.OS, m.Go, m.Sync)
}

// syncTime returns the median time of a synced write of 8 KiB over bytes that the file has already.
func syncTime(dir string) (time.Duration, error) {
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	var all []time.Duration
	block := make([]byte, 8<<10)
	for i, began := 0, time.Now(); i < 101 && (i < 4 || time.Since(began) < 2*time.Second); i++ { // do not wait for a busy disk
		start := time.Now()
		if _, err := f.WriteAt(block, 0); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		if i > 0 { // the first write makes the file longer
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

// coreTime is processor time since a moment in the past, in seconds.
type coreTime struct {
	known     bool
	all, busy float64 // of all cores together
	ours      float64 // of this process and of those that it has waited for
}

func coresNow() (c coreTime) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return c
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(strings.TrimPrefix(line, "cpu "))
	const perSecond = 100 // USER_HZ, the same on all systems
	for i, field := range fields[:min(len(fields), 8)] {
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return coreTime{}
		}
		c.all += ticks / perSecond
		if i != 3 && i != 4 { // idle, waiting for disks
			c.busy += ticks / perSecond
		}
	}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var used syscall.Rusage
		if syscall.Getrusage(who, &used) != nil {
			return coreTime{}
		}
		c.ours += time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
	}
	c.known = len(fields) >= 8
	return c
}

// others returns the share of the cores' time since before that other programs had, or that a host
// withheld from this machine. It returns nil if the share is not known.
func (c coreTime) others(before coreTime) *float64 {
	if !c.known || !before.known || c.all <= before.all {
		return nil
	}
	share := max(0, ((c.busy-before.busy)-(c.ours-before.ours))/(c.all-before.all))
	share = math.Round(100*share) / 100
	return &share
}
