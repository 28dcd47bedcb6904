package inventory

import (
	"go.yaml.in/yaml/v4"

	"github.com/cr-clawer/urifilter/systemd"
)

// The sections of the inventory for one program each.
const (
	SectionFilter     = "filter"     // top-level keys of the inventory
	SectionDownloader = "downloader" // the key of that name
)

// Own is the part of the inventory about one program on all hosts.
type Own struct {
	// SettingsFile is a file in the program's own format with settings for all hosts. Default "":
	// none.
	SettingsFile string `yaml:"settings_file"`
	// Settings are keys of that file; they override SettingsFile, and those of a host override them.
	// Nil: none.
	Settings *yaml.Node `yaml:"settings"`
	// TokensFile is a tokens file on this machine (mode 0600), pushed to the program's hosts
	// with digests in place of the tokens. Default "": tokens.NAME.yaml beside the
	// inventory, with NAME for the section, if it exists.
	TokensFile string `yaml:"tokens_file"`
	// Binary is a ready program to push; in it {arch} stands for the host's amd64 or arm64. Default
	// "": built from the sources here.
	Binary string `yaml:"binary"`
	// Service is how systemd runs it.
	Service Service `yaml:"service"`
}

// HostOwn is the part of the inventory about one program on one host.
type HostOwn struct {
	// Settings are keys of the program's settings for only this host. Nil: none.
	Settings *yaml.Node `yaml:"settings"`
	// Binary is a ready program for this host in place of the general one. Default "".
	Binary string `yaml:"binary"`
}

// Service is how systemd runs the daemon.
type Service struct {
	// User and Group run the daemon; they are created if missing. Not root. Default urifilter, or
	// uridownloader.
	User  string `yaml:"user"`
	Group string `yaml:"group"`
	// MemoryMax is how much memory the daemon may use before the system kills it, in systemd's
	// format: 4G, 80%. It needs 3.2 MB per million items of capacity, plus a base. Default "": no
	// limit.
	MemoryMax string `yaml:"memory_max"`
	// OpenFiles is the limit of its open files and connections, 1024 or more. Default 0: that of the
	// unit, 262144.
	OpenFiles int `yaml:"open_files"`
}

// Own returns the part of the inventory about a section's program; empty if it has none. Keys of
// the section begin with prefix.
func (i *Inventory) Own(section string) (own Own, prefix string) {
	switch section {
	case SectionFilter:
		return Own{SettingsFile: i.SettingsFile, Settings: i.Settings, TokensFile: i.TokensFile, Binary: i.Release.Binary, Service: i.Service}, ""
	case SectionDownloader:
		return i.Downloader, SectionDownloader + "."
	}
	return Own{}, ""
}

// Own returns the host's part about a section's program.
func (h Host) Own(section string) HostOwn {
	switch section {
	case SectionFilter:
		return HostOwn{Settings: h.Settings, Binary: h.Binary}
	case SectionDownloader:
		return h.Downloader
	}
	return HostOwn{}
}

// sections returns all of them.
func sections() []string { return []string{SectionFilter, SectionDownloader} }

func (s Service) validate(f *faults, prefix string) {
	for key, name := range map[string]string{"user": s.User, "group": s.Group} {
		if !systemd.AccountName(name) {
			f.Add(prefix+key, "%q: want a name of a-z, 0-9, _ and -, 31 at most", name)
		}
		if name == "root" {
			f.Add(prefix+key, "root: want an account that may do less")
		}
	}
	if m := s.MemoryMax; m != "" {
		f.matches(prefix+"memory_max", m, memoryPattern, "a size such as 4G, or a share such as 80%")
	}
	if n := s.OpenFiles; n != 0 && n < 1024 {
		f.Add(prefix+"open_files", "%d: want 1024 or more, or 0 for what the unit has", n)
	}
}
