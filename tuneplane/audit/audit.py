"""The audit of one script."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tuneplane import __version__
from tuneplane.audit.claims import claims_of_record, claims_of_script
from tuneplane.audit.compare import differences
from tuneplane.audit.frozen import Frozen, files_of_run, helper_changes
from tuneplane.audit.model import IMAGE, CannotRecompile, Claims, Difference
from tuneplane.audit.own import Own, own_inputs, own_site
from tuneplane.audit.recompile import image_of, lock_differences, recompile
from tuneplane.audit.subject import Subject, subject
from tuneplane.errors import ImageError, LockError, Problem, TuneplaneError, shown
from tuneplane.experiment.locate import find_experiment
from tuneplane.plan.model import NOT_REGISTERED, Image
from tuneplane.prepare import frozen
from tuneplane.runs.helper import helper
from tuneplane.runtimes.image import sha256_of
from tuneplane.sites.load import NamedSite

UNTOUCHED, DIFFERS, OTHER_IMAGE, UNKNOWN = "untouched", "differs", "another image", "cannot be re-compiled"
"""What an audit ends with."""
MAX_FROZEN_BYTES = 1 << 30
"""What is read of frozen files where the site's own limit is not known."""


@dataclass
class Report:
    """What came of an audit. reasons: why it could not be compiled again; notes: what a reader should know."""

    subject: Subject
    claims: Claims | None = None
    own: Own = field(default_factory=Own)
    differences: list[Difference] = field(default_factory=list)
    reasons: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        if self.reasons:
            return UNKNOWN
        kinds = {difference.kind for difference in self.differences}
        return DIFFERS if kinds - {IMAGE} else OTHER_IMAGE if kinds else UNTOUCHED

    def check(self) -> None:
        """Raises LockError unless all is as it should be, ImageError when only the image is not."""
        if self.reasons:
            raise LockError(*(replace(reason, what=f"{UNKNOWN}: {reason.what}") for reason in self.reasons))
        count = len(self.differences)
        said = f"{count} difference" + ("s" if count != 1 else "")
        if self.verdict == DIFFERS:
            raise LockError.of(f"the audit found {said}")
        if self.verdict == OTHER_IMAGE:
            raise ImageError.of(f"the audit found another image: {said}")


def audit(word: str, chosen: NamedSite) -> Report:
    """Audit a run or a script. chosen: the auditor's site, whose registry counts.

    Raises InputError when there is no such run or script, LockError when the auditor's registry cannot be used.
    """
    about = subject(word, chosen.site)
    report = Report(about, differences=list(about.found), notes=list(about.notes))
    said, recorded = claims_of_script(about.script), claims_of_record(about.record)
    claims = recorded or said
    if claims is None:
        report.reasons.append(Problem("it has no header of a script of tuneplane", about.source))
        return report
    if about.folder is not None and recorded is None:
        report.notes.append("run.json cannot be read: what the script says of itself is taken as claimed")
    if claims.command.registry:
        report.notes.append(f"it names the registry {claims.command.registry}, which is not the site's")
    report.claims, said = claims, said or claims
    auditor = own_site(chosen, claims.site)
    report.own = own_inputs(auditor, [said] if said is claims else [said, claims])
    _Audit(report, claims, said, "tp catalog ls" if auditor.registry else "tp site ls").run()
    site = report.own.site
    if about.folder is not None and site and site.scheduler != chosen.site.scheduler:
        report.notes.append(f"the site in hand is {chosen.name}: {site.scheduler} was not asked for its copy")
    return report


class _Audit:
    """The checks, each of which adds differences, or a reason why the script cannot be made again.

    claims: what inputs are taken from; said: what the script itself names; where_published: what to type to see it.
    """

    def __init__(self, report: Report, claims: Claims, said: Claims, where_published: str) -> None:
        self.report, self.claims, self.said = report, claims, said
        self.where_published = where_published
        self.folder = report.subject.folder
        self.found = report.differences

    def run(self) -> None:
        own = self.report.own
        other = __version__ not in (self.claims.tool_version, self.said.tool_version)
        if other:
            version = self.said.tool_version
            what = f"it was rendered by tuneplane {version}, this is {__version__}"
            self.cannot(what, "the same command with that version")
        for what in own.not_published:
            self.cannot(f"{what} is not published", self.where_published)
        if self.folder is not None:
            self.found += helper_changes(self.folder, None if other else helper(), self.said.helper_digest)
        files = self.files()
        self.image()
        if self.report.reasons or files is None or own.recipe is None or own.site is None:
            return
        self.found += lock_differences(own.recipe, files)
        claims = replace(self.claims, site=own.site_name, site_digest=own.site_digest)
        try:
            text = recompile(claims, own.recipe, own.site, files, own.shelf, own.keys)
        except CannotRecompile as error:
            self.cannot(str(error))
        else:
            self.found += differences(text, self.report.subject.script)

    def cannot(self, reason: str, hint: str = "") -> None:
        # names that the submitter chose stand in it
        self.report.reasons.append(Problem(shown(reason, 4000)[1:-1], hint=hint))

    def files(self) -> Frozen | None:
        """The frozen files: the run's, or for a copied script those of the experiment if it still is as it was."""
        site = self.report.own.site
        try:
            if self.folder is None:
                return None if site is None else self.of_experiment()
            limit = site.freeze.max_bytes if site else MAX_FROZEN_BYTES
            digests = self.said.files_digest, self.claims.files_digest
            return files_of_run(self.folder, *digests, limit, self.found)
        except CannotRecompile as error:
            self.cannot(str(error))
            return None

    def of_experiment(self) -> Frozen:
        folder, site = self.claims.command.experiment_dir, self.report.own.site
        assert site is not None
        try:
            now = Frozen.of(frozen(find_experiment(folder), site, self.claims.command.request)[1])
        except TuneplaneError as error:
            raise CannotRecompile(f"its frozen files are not here: {error}") from None
        if now.digest != self.said.files_digest:
            raise CannotRecompile(f"its frozen files are not here, and {folder} has other files now")
        self.report.notes.append(f"the frozen files are taken from {folder}, which has the same digest")
        return now

    def image(self) -> None:
        """Hold the file of the image against the digest that was recorded, and the script's digest against it."""
        claims, own = self.claims, self.report.own
        if self.report.reasons and claims.image_sha256 != self.said.image_sha256:
            digests = (f"sha256:{item.image_sha256}" for item in (claims, self.said))
            self.found.append(Difference(IMAGE, "image digest of the script", *digests))
        named = Image(claims.image_path, "", "") if claims.image_path else None
        if own.recipe is not None and own.site is not None:
            named = image_of(claims, own.recipe, own.site, own.shelf)
        if named is None:
            return
        if claims.image_sha256 is None:
            self.report.notes.append(f"the image {named.path} was not there, so it has no digest")
            return
        if named.source == NOT_REGISTERED:
            return
        wanted = named.sha256 or claims.image_sha256
        expected = f"sha256:{wanted}"
        try:
            now = sha256_of(named.path)
        except ImageError as error:
            self.found.append(Difference(IMAGE, named.path, expected, str(error)))
            return
        if now is None:
            self.report.notes.append(f"the image {named.path} is not to be seen here: its digest is a claim")
        elif now != wanted:
            self.found.append(Difference(IMAGE, named.path, expected, f"sha256:{now}"))
