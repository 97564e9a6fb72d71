"""Stages, reservations, redrives and schedules, for threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import aio
from .._core.resource import Resource
from .._redrive_values import Redrive
from .._reservation_values import Reservation
from .._values import Seconds
from .mirroring import blocking, blocking_items


class Staging(Resource[Any]):
    __doc__ = aio.Staging.__doc__

    stage = blocking(aio.Staging.stage)
    publish = blocking(aio.Staging.publish)
    abort = blocking(aio.Staging.abort)
    get = blocking(aio.Staging.get)
    list = blocking_items(aio.Staging.list)


class ReservationHandle(Reservation):
    __doc__ = aio.ReservationHandle.__doc__

    __slots__ = ("_resource",)
    _resource: Any

    if TYPE_CHECKING:

        def extend(
            self, visibility_timeout: Seconds | None = None, *, timeout: Seconds | None = None
        ) -> ReservationHandle: ...

    else:
        extend = blocking(aio.ReservationHandle.extend)
    read = blocking_items(aio.ReservationHandle.read)
    commit = blocking(aio.ReservationHandle.commit)
    release = blocking(aio.ReservationHandle.release)


class Reservations(Resource[Reservation]):
    __doc__ = aio.Reservations.__doc__
    _handle_type = ReservationHandle

    extend = blocking(aio.Reservations.extend, ReservationHandle)
    read = blocking_items(aio.Reservations.read)
    commit = blocking(aio.Reservations.commit)
    release = blocking(aio.Reservations.release)
    get = blocking(aio.Reservations.get, ReservationHandle)
    list = blocking_items(aio.Reservations.list, ReservationHandle)


class RedriveHandle(Redrive):
    __doc__ = aio.RedriveHandle.__doc__

    __slots__ = ("_resource",)
    _resource: Any

    if TYPE_CHECKING:

        def get(self, *, timeout: Seconds | None = None) -> RedriveHandle: ...

        def cancel(self, *, timeout: Seconds | None = None) -> RedriveHandle: ...

    else:
        get = blocking(aio.RedriveHandle.get)
        cancel = blocking(aio.RedriveHandle.cancel)


class Redrives(Resource[Redrive]):
    __doc__ = aio.Redrives.__doc__
    _handle_type = RedriveHandle

    get = blocking(aio.Redrives.get, RedriveHandle)
    cancel = blocking(aio.Redrives.cancel, RedriveHandle)
    list = blocking_items(aio.Redrives.list, RedriveHandle)


class Schedules(Resource[Any]):
    __doc__ = aio.Schedules.__doc__

    create = blocking(aio.Schedules.create)
    get = blocking(aio.Schedules.get)
    update = blocking(aio.Schedules.update)
    list = blocking_items(aio.Schedules.list)
    pause = blocking(aio.Schedules.pause)
    resume = blocking(aio.Schedules.resume)
    delete = blocking(aio.Schedules.delete)
