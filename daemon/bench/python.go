package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/cr-clawer/urifilter/daemon/bench/report"
)

// overPython measures the Python client and Scrapy beside their own limits: it runs the benchmark
// of the Python package against a daemon of its own.
func overPython(s settings) error {
	python, err := exec.LookPath("python3")
	if err != nil {
		fmt.Println("\nleft out: the Python client; there is no python3")
		return nil
	}
	daemon, err := startServer(s, "none")
	if err != nil {
		return err
	}
	cmd := exec.Command(python, filepath.Join("python", "bench", "clients.py"), "--url", "http://"+daemon.addr, "--rounds", fmt.Sprint(s.runs), "--json", "-")
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, os.Stderr
	if err := cmd.Run(); err != nil {
		_ = daemon.stop()
		return fmt.Errorf("%s: %w", cmd, err)
	}
	var found struct {
		Results []struct {
			Name   string
			Unit   string
			Value  float64
			Beside string
			Limit  float64
			Ratio  float64
		}
	}
	if err := json.Unmarshal(text.Bytes(), &found); err != nil {
		_ = daemon.stop()
		return fmt.Errorf("%s: %w", cmd, err)
	}
	t := report.Table{{"what", "of what is beside it", "rate", "beside it", "its rate"}}
	for _, r := range found.Results {
		t.Row(r.Name, fmt.Sprintf("%.0f %%", 100*r.Ratio), fmt.Sprintf("%.0f %s", r.Value, r.Unit), r.Beside, fmt.Sprintf("%.0f", r.Limit))
		s.out.Run("Python/"+r.Name, report.Value{N: r.Value, Unit: r.Unit})
		s.out.Run("Python/"+r.Name+"/beside", report.Value{N: r.Limit, Unit: r.Unit})
	}
	s.out.Table("python", "In turns with what limits them: medians that the benchmark of the package takes itself", t)
	return daemon.stop()
}
