package mongodb

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// roleDoc is a document of DownloadRole.
type roleDoc struct {
	Name  string        `bson:"_id"`
	Owner string        `bson:"owner"`
	Until time.Time     `bson:"until"`
	By    bson.ObjectID `bson:"by"` // mark of the call that set it
}

// Hold implements download.Roles. An existing name is taken by an update that matches only if the
// name is free, and that writes the mark of this call. A missing name is inserted.
func (s *Store) Hold(ctx context.Context, owner string, names []string, ttl time.Duration) ([]string, error) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) == 0 {
		return nil, ctx.Err()
	}
	var held []string
	err := s.retry(ctx, func(ctx context.Context, _ bool) error {
		now, err := s.clock.now(ctx)
		if err != nil {
			return err
		}
		until, mark := now.until(ttl), markAt(now)
		_, err = s.roles.UpdateMany(ctx, doc("_id", among(names), "$or", bson.A{doc("owner", owner), doc("until", doc("$lte", now.least))}),
			doc("$set", doc("owner", owner, "until", until, "by", mark)))
		if err != nil {
			return err
		}
		there, err := find[roleDoc](ctx, s.roles, doc("_id", among(names)))
		if err != nil {
			return err
		}
		held = nil
		missing := names
		for _, d := range there {
			if missing = without(missing, d.Name); d.By == mark {
				held = append(held, d.Name)
			}
		}
		if len(missing) == 0 {
			return nil
		}
		docs := make([]roleDoc, len(missing))
		for i, name := range missing {
			docs[i] = roleDoc{name, owner, until, mark}
		}
		_, err = s.roles.InsertMany(ctx, docs, options.InsertMany().SetOrdered(false))
		taken, err := duplicates(err)
		for i, name := range missing {
			if !taken[i] {
				held = append(held, name)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return held, nil
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

// LetGo implements download.Roles.
func (s *Store) LetGo(ctx context.Context, owner string, names []string) error {
	if len(names) == 0 {
		return ctx.Err()
	}
	return s.retry(ctx, func(ctx context.Context, _ bool) error {
		_, err := s.roles.DeleteMany(ctx, doc("_id", among(names), "owner", owner))
		return err
	})
}

// Holders implements download.Roles.
func (s *Store) Holders(ctx context.Context, prefix string) (map[string]string, error) {
	holders := map[string]string{}
	err := s.retry(ctx, func(ctx context.Context, _ bool) error {
		now, err := s.clock.now(ctx)
		if err != nil {
			return err
		}
		all, err := find[roleDoc](ctx, s.roles, doc("_id", doc("$gte", prefix, "$lt", prefix+"\U0010ffff"), "until", doc("$gt", now.least)))
		clear(holders)
		for _, d := range all {
			if strings.HasPrefix(d.Name, prefix) {
				holders[d.Name] = d.Owner
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return holders, nil
}

// sweepRoles removes names that nobody holds any more, as those of workers are never reused.
func (s *Store) sweepRoles(ctx context.Context, now moment) error {
	return s.retry(ctx, func(ctx context.Context, _ bool) error {
		_, err := s.roles.DeleteMany(ctx, doc("until", doc("$lte", now.least)))
		return err
	})
}
