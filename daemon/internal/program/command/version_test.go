package command

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	v := versionOf(&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "true"},
	}})
	v.Go, v.OS, v.Arch = "go1.26", "plan9", "mips"
	if got, want := v.Of("urifilter"), "urifilter v1.2.3 (commit 0123456789ab of 2026-01-02T03:04:05Z, modified) go1.26 plan9/mips"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
