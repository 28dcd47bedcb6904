package site

import (
	"context"
	"slices"

	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/schedule"
)

// Collect has a host download the packages of the inventory's roles and settings into a folder here.
func (s *Site) Collect(ctx context.Context, h host.Host, dir string) error {
	var packages []string
	var repositories []apt.Repository
	if s.redis != nil {
		packages = append(packages, s.redis.Package())
	}
	if s.mysql != nil {
		packages = append(packages, s.mysql.Package())
	}
	if s.Inventory.Schedule.Kind == schedule.Crontab {
		packages = append(packages, "cron")
	}
	for _, p := range s.Programs {
		for _, h := range s.with(p) {
			for _, needed := range s.Needs(h, s.On(h, p)) {
				if !slices.Contains(packages, needed) {
					packages = append(packages, needed)
				}
			}
		}
	}
	if s.mongo != nil {
		facts, err := host.FactsOf(ctx, h)
		if err != nil {
			return err
		}
		more, from, err := s.mongo.Sources(ctx, facts)
		if err != nil {
			return err
		}
		packages, repositories = append(packages, more...), from
	}
	if len(packages) == 0 {
		return nil
	}
	return apt.Collect(ctx, h, dir, repositories, packages...)
}
