! levin from Fortran: arrays in both orders without a copy, errors, and a run that resumes to the bit.
program interface
  use, intrinsic :: iso_fortran_env, only: real32, real64, int32, int64
  use levin
  implicit none
  integer, parameter :: samples = 8, steps = 20
  character(*), parameter :: yaml = &
    "seed_everything: 3" // new_line("a") // &
    "trainer: {enable_progress_bar: false, enable_checkpointing: false}" // new_line("a") // &
    "model: {class_path: MLPRegressor, init_args: {inputs: 2, hidden: [16], lr: 0.02}}"
  real(real32), target :: features(2, samples), labels(samples), turned(samples, 2)
  real(real64) :: losses(steps), resumed(steps)
  integer(int64), target :: solver_state(2)
  integer :: failures = 0

  call check_training()
  call check_memory()
  call check_predictor()
  call check_errors()
  if (failures > 0) error stop 1
  print "(a)", "all hold"

contains

  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(*), intent(in) :: what
    if (holds) return
    print "(3a)", what, " does not hold: ", levin_error()
    failures = failures + 1
  end subroutine

  subroutine fill(step)
    integer, intent(in) :: step
    integer :: sample
    do sample = 1, samples
      features(1, sample) = real(mod(sample * 5 + step * 3, 7), real32) / 7
      features(2, sample) = real(mod(sample * 3 + step * 2, 5), real32) / 5
    end do
    labels = 2 * features(1, :) - features(2, :)
    turned = transpose(features)
  end subroutine

  subroutine train(session, from, to, results)
    type(levin_session), intent(inout) :: session
    integer, intent(in) :: from, to
    real(real64), intent(inout) :: results(:)
    type(levin_batch) :: batch
    logical :: stops
    integer :: step
    call batch%set("features", features)
    call batch%set("label", labels)
    do step = from, to
      call fill(step)
      call session%step(batch, loss=results(step), stops=stops)
      call check(.not. stops, "not stops")
    end do
    call batch%free()
  end subroutine

  subroutine check_training()
    type(levin_session) :: session
    type(levin_batch) :: batches(1)
    solver_state = 0
    call session%open_text(yaml)
    call session%keep("solver", solver_state)
    call session%begin()
    call train(session, 1, steps / 2, losses)
    solver_state(2) = 17
    call session%save("middle.ckpt")
    call train(session, steps / 2 + 1, steps, losses)
    call check(losses(steps) < losses(1) / 4, "the loss falls")
    call check(session%global_step() == steps, "global_step")
    call batches(1)%set("features", features)
    call batches(1)%set("label", labels)
    call session%validate(batches)
    call check(session%metric("val_loss") < losses(1), "val_loss")
    call check(session%rank() == 0 .and. session%world_size() == 1, "ranks")
    call check(len(session%log_dir()) > 0, "log_dir")
    call batches(1)%free()
    call session%end()
    call session%close()

    solver_state = 0
    call session%open_text(yaml)
    call session%keep("solver", solver_state)
    call session%begin("middle.ckpt")
    call check(solver_state(2) == 17, "keep")
    call train(session, steps / 2 + 1, steps, resumed)
    call check(all(losses(steps / 2 + 1:) == resumed(steps / 2 + 1:)), "resumed to the bit")
    call session%end()
    call session%close()
  end subroutine

  subroutine check_memory()
    type(levin_session) :: session
    type(levin_batch) :: batch, prediction
    real(real32), target :: reversed_order(samples), same_order(samples)
    real(real64), target :: double(samples)
    integer(int32), target :: whole(samples)
    call session%open_text(yaml, [character(30) :: "trainer.max_steps=1", "model.init_args.hidden=[4]"])
    call session%begin()
    call fill(1)
    call batch%set("features", features)
    call session%predict(batch, prediction)
    call prediction%get("value", reversed_order)
    call prediction%get("", double)
    call prediction%get("value", whole)
    call check(all(double == real(reversed_order, real64)), "converted")
    call check(all(whole == int(reversed_order)), "whole numbers")
    call batch%set("features", turned, same_order=.true.)
    call session%predict(batch, prediction)
    call prediction%get("value", same_order)
    call check(maxval(abs(same_order - reversed_order)) < 1e-6_real32, "both orders")
    ! What the array is at the time of the call counts: nothing was copied.
    turned = 0
    call session%predict(batch, prediction)
    call prediction%get("value", same_order)
    call check(maxval(abs(same_order - same_order(1))) < 1e-6_real32, "no copy")
    call prediction%free()
    call batch%free()
    call session%end()
    call session%close()
  end subroutine

  subroutine check_predictor()
    type(levin_session) :: session
    type(levin_predictor) :: predictor
    type(levin_batch) :: batch, prediction
    real(real32), target :: by_session(samples), by_predictor(samples)
    integer :: status
    call session%open_text(yaml)
    call session%begin()
    call session%load("middle.ckpt")
    call fill(1)
    call batch%set("features", features)
    call session%predict(batch, prediction)
    call prediction%get("value", by_session)
    call predictor%open("middle.ckpt")
    call predictor%predict(batch, prediction)
    call prediction%get("value", by_predictor)
    call check(all(by_session == by_predictor), "a predictor")
    call predictor%open("no.ckpt", status=status)
    call check(status == levin_config_error, "no checkpoint")
    call prediction%free()
    call batch%free()
    call predictor%close()
    call session%close()
  end subroutine

  subroutine check_errors()
    type(levin_session) :: session
    type(levin_batch) :: batch
    real(real32), target :: few(3)
    integer :: status
    call session%open("no_such.yaml", status=status)
    call check(status == levin_config_error .and. index(levin_error(), "no_such.yaml") > 0, "no file")
    call session%begin(status=status)
    call check(status == levin_misuse, "not open")
    call batch%set("features", features(:, 1:samples:2), status=status)
    call check(status == levin_misuse .and. index(levin_error(), "set('features'): the array has gaps") > 0, "gaps")
    call batch%set("features", features)
    call batch%get("features", few, status=status)
    call check(status == levin_misuse .and. index(levin_error(), "[8, 2]") > 0, "another shape")
    call session%open_text(yaml)
    call session%begin()
    call session%step(batch, status=status)
    call check(status == levin_misuse .and. index(levin_error(), "label") > 0, "no label")
    call batch%free()
    call session%close()
  end subroutine

end program interface
