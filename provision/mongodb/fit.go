package mongodb

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// row is a system for which the makers of MongoDB provide packages of a series. Systems missing
// from the table are refused: packages for another release may install and then not run.
type row struct {
	series, os, version string
	archs               []string
}

func matrix() []row {
	both := []string{"amd64", "arm64"}
	return []row{
		{"8.0", "ubuntu", "20.04", both},
		{"8.0", "ubuntu", "22.04", both},
		{"8.0", "ubuntu", "24.04", both},
		{"8.0", "debian", "12", []string{"amd64"}},
	}
}

func series() []string {
	var all []string
	for _, r := range matrix() {
		if !slices.Contains(all, r.series) {
			all = append(all, r.series)
		}
	}
	return all
}

const otherWays = "\nhint: choose mongodb.flavor: ferretdb, or name a server elsewhere in mongodb.uri, in the inventory"

// supported says why a host cannot run that series, nil if it can.
func supported(f host.Facts, series string) error {
	var has []string
	for _, r := range matrix() {
		if r.series != series {
			continue
		}
		if r.os == f.OS && r.version == f.Version {
			if !slices.Contains(r.archs, f.Arch) {
				return fmt.Errorf("MongoDB %s for %s is made for %s alone; this host is %s%s", series, f.Name, strings.Join(r.archs, " and "), f.Arch, otherWays)
			}
			return processor(f, series)
		}
		has = append(has, strings.ToUpper(r.os[:1])+r.os[1:]+" "+r.version)
	}
	return fmt.Errorf("MongoDB %s is not made for %s: its makers have it for %s%s", series, f.Name, strings.Join(has, ", "), otherWays)
}

// processor detects processors on which MongoDB ends with "Illegal instruction".
func processor(f host.Facts, series string) error {
	switch {
	case f.Arch == "amd64" && !f.Has("avx"):
		return fmt.Errorf("MongoDB %s needs a processor with AVX, and this one has none (it may be hidden by the virtual machine: give that the processor type of its machine)%s", series, otherWays)
	case f.Arch == "arm64" && (!f.Has("atomics") || !f.Has("dcpop") && !f.Has("asimddp") && !f.Has("fphp")):
		return fmt.Errorf("MongoDB %s needs a processor with ARMv8.2-A, and this one is older%s", series, otherWays)
	}
	return nil
}

// fit proves that the host can run the server, and that the one that runs there is not used by others, as far as it tells
// that to anybody.
func (s *Server) fit() step.Proof {
	return step.NewProof("mongodb: host is fit", func(ctx context.Context, h host.Host) error {
		if s.options.Flavor == FerretDB {
			return s.mayTake(ctx, h, false)
		}
		f, err := host.FactsOf(ctx, h)
		if err != nil {
			return err
		}
		if err := supported(f, s.options.Version); err != nil {
			return err
		}
		there, err := apt.Installed(ctx, h, "mongodb-org-server", "mongodb-server", "mongodb-server-core")
		if err != nil {
			return err
		}
		for name, version := range there {
			if err := sameSeries(name, version, s.options.Version); err != nil {
				return err
			}
		}
		return s.mayTake(ctx, h, false)
	})
}

// sameSeries refuses a change of series: data files would have to be converted, one series after
// the other, by somebody who knows the data.
func sameSeries(name, version, series string) error {
	if i := strings.IndexByte(version, ':'); i >= 0 { // the epoch
		version = version[i+1:]
	}
	if version == series || strings.HasPrefix(version, series+".") {
		return nil
	}
	return fmt.Errorf("%s %s is installed, and the inventory asks for %s: a series is never changed by the toolkit\nhint: upgrade it by hand, one series after the other, as its manual says; or say mongodb.version as it is; or mongodb.uri, to leave this server alone", name, version, series)
}

// makers returns the repository of MongoDB's makers for a host.
func makers(f host.Facts, series string) (r apt.Repository, keyURL string) {
	r = apt.Repository{URL: "https://repo.mongodb.org/apt/" + f.OS, Suite: f.Codename + "/mongodb-org/" + series, Component: "main"}
	if f.OS == "ubuntu" {
		r.Component = "multiverse"
	}
	return r, "https://pgp.mongodb.com/server-" + series + ".asc"
}

// repository is the step that adds the repository, which depends on the host.
func (s *Server) repository(packages *apt.System) step.Wish {
	return step.NewWish("mongodb: repository", func(ctx context.Context, h host.Host) (*step.Change, error) {
		f, err := host.FactsOf(ctx, h)
		if err != nil {
			return nil, err
		}
		r, err := s.repositoryFor(ctx, f)
		if err != nil {
			return nil, err
		}
		return packages.Repository(r).Look(ctx, h)
	})
}

func (s *Server) repositoryFor(ctx context.Context, f host.Facts) (r apt.Repository, err error) {
	r, keyURL := s.options.Repository, ""
	if r.URL == "" {
		r, keyURL = makers(f, s.options.Version)
	}
	r.Name = "mongodb"
	r.Suite = strings.NewReplacer("{codename}", f.Codename, "{os}", f.OS).Replace(r.Suite)
	switch {
	case s.options.Key != nil:
		r.Key, err = s.options.Key(ctx)
	case len(s.options.Repository.Key) > 0:
	case keyURL != "":
		r.Key, err = apt.FetchKey(ctx, "", keyURL)
	default:
		err = fmt.Errorf("mongodb.repository: no key is given\nhint: key_file or key_url")
	}
	return r, err
}

// Sources returns what to collect for a host without a network: the packages, and the repositories
// that provide them in addition to the host's own.
func (s *Server) Sources(ctx context.Context, f host.Facts) (packages []string, repositories []apt.Repository, err error) {
	if s.options.Flavor == MongoDB {
		if err := supported(f, s.options.Version); err != nil {
			return nil, nil, err
		}
	}
	if s.options.Flavor == MongoDB || s.options.Repository.URL != "" {
		r, err := s.repositoryFor(ctx, f)
		if err != nil {
			return nil, nil, err
		}
		repositories = append(repositories, r)
	}
	return s.options.Packages, repositories, nil
}
